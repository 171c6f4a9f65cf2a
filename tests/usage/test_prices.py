import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from usage.models import Price
from usage.prices import PriceListError, PriceRow, import_prices, read_price_list

LITELLM: dict[str, Any] = {
    "sample_spec": {"input_cost_per_token": "see below", "max_tokens": "LEGACY"},
    "zai/glm-5": {
        "litellm_provider": "zai",
        "mode": "chat",
        "input_cost_per_token": 6e-07,
        "output_cost_per_token": 2.2e-06,
        "cache_read_input_token_cost": 1.1e-07,
    },
    "sonnet": {
        "input_cost_per_token": 3e-06,
        "output_cost_per_token": 1.5e-05,
        "cache_creation_input_token_cost": 3.75e-06,
        "cache_creation_input_token_cost_above_1hr": 6e-06,
        "cache_read_input_token_cost": 3e-07,
        "input_cost_per_token_above_200k_tokens": 6e-06,
        "input_cost_per_token_above_512k_tokens": 9e-06,
        "input_cost_per_token_above_0k_tokens": 9e-06,
        "output_cost_per_token_above_200k_tokens": 2.25e-05,
        "cache_read_input_token_cost_above_200k_tokens": 6e-07,
        "cache_creation_input_token_cost_above_200k_tokens": 7.5e-06,
    },
    "tiny": {"input_cost_per_token": 1.875e-08, "output_cost_per_token": 7.5e-08, "mode": "chat"},
    "dall-e": {"litellm_provider": "openai", "input_cost_per_pixel": 1.9e-08, "mode": "image_generation"},
    "free": {"input_cost_per_token": 0, "output_cost_per_token": 0.0},
}
CSV = "model,input,output,cache_read,thinking\nglm-5,0.6,2.2,0.11,\nqwen-4,0.01875,10,,12\n"


def test_litellms_list_is_read_in_1e_12_usd() -> None:
    assert read_price_list(json.dumps(LITELLM)) == [
        PriceRow(model="zai/glm-5", input=600_000, output=2_200_000, cache_read=110_000),
        PriceRow(
            model="sonnet",
            input=3_000_000,
            output=15_000_000,
            cache_read=300_000,
            cache_write=3_750_000,
            cache_write_1h=6_000_000,
            long_above=200_000,
            long_input=6_000_000,
            long_output=22_500_000,
            long_cache_read=600_000,
            long_cache_write=7_500_000,
        ),
        PriceRow(model="tiny", input=18_750, output=75_000),
    ]


def test_of_litellms_list_a_provider_can_be_taken() -> None:
    assert [row.model for row in read_price_list(json.dumps(LITELLM), provider="zai")] == ["glm-5"]


def test_csv_is_read_in_usd_per_million() -> None:
    assert read_price_list("\ufeff" + CSV) == [
        PriceRow(model="glm-5", input=600_000, output=2_200_000, cache_read=110_000),
        PriceRow(model="qwen-4", input=18_750, output=10_000_000, thinking=12_000_000),
    ]


def test_csv_may_have_prices_of_long_requests() -> None:
    header = "model,input,output,cache_write_1h,long_above,long_input,long_cache_write_1h\n"

    assert read_price_list(f"{header}a,1,2,2.5,200000,3,7\nb,1,2,,,,\n") == [
        PriceRow(
            model="a",
            input=1_000_000,
            output=2_000_000,
            cache_write_1h=2_500_000,
            long_above=200_000,
            long_input=3_000_000,
            long_cache_write_1h=7_000_000,
        ),
        PriceRow(model="b", input=1_000_000, output=2_000_000),
    ]


def test_a_price_per_million_where_one_per_token_belongs_says_so() -> None:
    with pytest.raises(PriceListError, match=r"line 1: '0\.6' is no price of at most 0\.01 USD"):
        read_price_list('{"a": {"input_cost_per_token": 0.6, "output_cost_per_token": 2.2}}')
    with pytest.raises(PriceListError, match="line 2: '10001' is no price of at most 10000 USD"):
        read_price_list("model,input,output\nglm,1,10001\n")
    assert read_price_list("model,input,output\nglm,1,10000\n")[0].output == 10**10


WRONG = [
    ("model,input,output,long_above\nglm,1,2,\nqwen,1,2,200000\n", 3),
    ("model,input,output,long_input\nglm,1,2,3\n", 2),
    ("model,input,output,long_above,long_output\nglm,1,2,200000,3\n", 2),
    ("model,input,output,long_above,long_input\nglm,1,2,0,3\n", 2),
    ("model,input,output,long_above,long_input\nglm,1,2,1.5,3\n", 2),
    (
        '{\n "a": {"input_cost_per_token": 1e-6, "output_cost_per_token": 1e-6,\n  "input_cost_per_token_above_200k_tokens": -1}}',
        3,
    ),
    ('{\n "a": {"input_cost_per_token": 1e-6,\n  "output_cost_per_token": -1}\n}', 3),
    ('{\n "a": {"input_cost_per_token": "cheap", "output_cost_per_token": 1e-6}}', 2),
    ('{\n "a": {"input_cost_per_token": true, "output_cost_per_token": 1e-6}}', 2),
    ('{\n\n "a": {"input_cost_per_token": 1e-6, "output_cost_per_token": 1.5}}', 3),
    ('{\n "a": {"input_cost_per_token": 1e-6, "output_cost_per_token": 1e-15}}', 2),
    ('{\n "a": {"input_cost_per_token": NaN, "output_cost_per_token": 1}}', 2),
    ('{\n "a": [1]\n}', 2),
    ('{\n "a": {"x": 1},\n "a": {"x": 1}\n}', 3),
    ('{\n "a": {"x": 1}\n "b": {}\n}', 3),
    ('{\n "a": {"x": \n}', 3),
    ('{\n "a" 1}', 2),
    ("{\n", 2),
    ("{}", 1),
    ("", 1),
    ("model,input\nglm,1\n", 1),
    ("model,input,output,extra\nglm,1,1,1\n", 1),
    ("model,input,output\nglm,1,2\nqwen,1,x\n", 3),
    ("model,input,output\nglm,1,2\nqwen,1\n", 3),
    ("model,input,output\nglm,1,2,3\n", 2),
    ("model,input,output\nglm,1,2\nglm,1,2\n", 3),
    ("model,input,output\n,1,2\n", 2),
    ("model,input,output\n" + "x" * 201 + ",1,2\n", 2),
    ('model,input,output\nglm,"1,2\n', 2),
    ("model,input,output\nglm,inf,2\n", 2),
]


@pytest.mark.parametrize(("text", "line"), WRONG)
def test_a_mistake_names_its_line(text: str, line: int) -> None:
    with pytest.raises(PriceListError) as refusal:
        read_price_list(text)

    assert refusal.value.line == line


@pytest.mark.django_db
def test_only_what_differs_is_imported() -> None:
    now = timezone.now()
    rows = read_price_list(CSV)

    assert import_prices(rows, valid_from=now) == 2
    assert import_prices(rows, valid_from=now + timedelta(days=1)) == 0
    assert import_prices(rows, valid_from=now, upstream_id=7) == 2
    tiered = [replace(rows[0], long_above=200_000, long_input=900_000)]
    assert import_prices(tiered, valid_from=now + timedelta(hours=1)) == 1
    assert import_prices(tiered, valid_from=now + timedelta(hours=2)) == 0
    dearer = read_price_list(CSV.replace("10,,12", "11,,12"))
    assert import_prices(dearer[1:], valid_from=now + timedelta(days=1)) == 1

    assert Price.objects.filter(upstream_model="qwen-4", upstream_id=None).count() == 2


@pytest.mark.django_db
def test_the_command_imports_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "prices.csv"
    file.write_text(CSV)

    call_command("import_prices", file, "--valid-from", "2026-01-01")

    assert capsys.readouterr().out == "imported 2 prices, 0 were known\n"
    price = Price.objects.get(upstream_model="qwen-4")
    assert (price.valid_from, price.origin) == (datetime(2026, 1, 1, tzinfo=UTC), "prices.csv")
    assert Decimal(price.input_price) / 10**6 == Decimal("0.01875")


@pytest.mark.django_db
def test_the_command_refuses_a_wrong_file_whole(tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    file.write_text(CSV + "broken,1,minus\n")

    with pytest.raises(CommandError, match="line 4"):
        call_command("import_prices", file)
    file.write_text(CSV)
    with pytest.raises(CommandError, match="no upstream"):
        call_command("import_prices", file, upstream="nowhere")

    assert not Price.objects.exists()
