"""How often the calls of a model without tool calls of its own needed a repair."""

from pathlib import Path

from django.contrib.auth.models import User
from django.urls import reverse

from keys.models import Upstream, UpstreamModel
from tests.usage.people import as_, settle
from usage.repairs import count_repairs

EMULATED = ("tool_emulation",)
LOOSE = ("tool_emulation", "tool_json_loose")
BOTH = ("tool_emulation", "tool_json_loose", "tool_type_mended")


def answers(dsn: str, folder: Path, upstream: Upstream, *noted: tuple[str, ...]) -> None:
    where = {"upstream_id": upstream.pk, "upstream_model": "small"}
    settle(dsn, folder, *((where, {"notes": notes}) for notes in noted))


def test_repairs_are_counted_by_kind(dsn: str, tmp_path: Path) -> None:
    upstream = Upstream.objects.create(name="u", base_url="https://u.example/v1")
    answers(
        dsn, tmp_path, upstream, EMULATED, LOOSE, BOTH, ("tool_result_missing",), (*EMULATED, "tool_result_missing")
    )

    counted = count_repairs(upstream.pk, "small")

    assert (counted.answers, counted.repaired) == (4, 2)
    assert list(counted.by_kind.values()) == [2, 1]
    assert next(iter(counted.by_kind)).startswith("a tool call's JSON had single quotes")


def test_other_models_are_not_counted(dsn: str, tmp_path: Path) -> None:
    upstream = Upstream.objects.create(name="u", base_url="https://u.example/v1")
    answers(dsn, tmp_path, upstream, LOOSE)

    assert count_repairs(upstream.pk, "large").answers == 0
    assert count_repairs(upstream.pk + 1, "small").answers == 0


def test_an_administrator_sees_them_on_the_models_page(dsn: str, tmp_path: Path) -> None:
    upstream = Upstream.objects.create(name="u", base_url="https://u.example/v1")
    model = UpstreamModel.objects.create(upstream=upstream, name="small", tools="emulated")
    native = UpstreamModel.objects.create(upstream=upstream, name="large")
    root = as_(User.objects.create_superuser("root"))

    def page(of: UpstreamModel) -> str:
        return root.get(reverse("admin:keys_upstreammodel_change", args=[of.pk])).content.decode()

    assert "No answer yet" in page(model)
    answers(dsn, tmp_path, upstream, EMULATED, BOTH)
    assert "Of the last 2 answers to requests with tools, 1 needed a repair." in page(model)
    assert "Calls found in its text" not in page(native)
