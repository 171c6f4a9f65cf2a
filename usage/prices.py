"""Price lists: LiteLLM's public JSON file and CSV, read whole or not at all.

* PriceListError   a line of the file is wrong; nothing was imported

LiteLLM (https://github.com/BerriAI/litellm, model_prices_and_context_window.json, read 2026-11-30): an object of
models, each with `input_cost_per_token` and so on, in USD per token. Models without a price per token (images,
audio, rerankers) are skipped, and so is `sample_spec`. Fields that are not named here are ignored.

CSV: a header, then a model per line, in USD per million tokens. Columns: `model`, `input`, `output`, and if need
be `cache_read`, `cache_write`, `thinking`. An empty cell is an unknown, which counts as input or as output.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from django.db import transaction

from usage.models import Price

PICO = Decimal(10) ** 12
MILLION = Decimal(10) ** 6
#: A USD per token: whoever asks more has lost a digit.
PRICE_MAX = Decimal(1)
MODEL_LENGTH_MAX = 200

LITELLM_FIELDS = {
    "input": "input_cost_per_token",
    "output": "output_cost_per_token",
    "cache_read": "cache_read_input_token_cost",
    "cache_write": "cache_creation_input_token_cost",
    "thinking": "output_cost_per_reasoning_token",
}


class PriceListError(ValueError):
    """A line of the file is wrong. `line` counts from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRow:
    """What a model costs, in 1e-12 USD per token; None where the list says nothing."""

    model: str
    input: int
    output: int
    cache_read: int | None = None
    cache_write: int | None = None
    thinking: int | None = None


def read_price_list(text: str, *, provider: str = "") -> list[PriceRow]:
    """Read a list in either format; which one, its first character tells.

    Args:
        text: The whole file.
        provider: Of LiteLLM's list take only the models of this provider, without its prefix.

    Raises:
        PriceListError: Something is wrong with it.
    """
    text = text.removeprefix("\ufeff")
    rows = list(_litellm_rows(text, provider) if text.lstrip().startswith("{") else _csv_rows(text))
    if not rows:
        raise PriceListError(1, "no model has a price per token")
    return rows


def import_prices(
    rows: Iterable[PriceRow], *, valid_from: datetime, upstream_id: int | None = None, origin: str = ""
) -> int:
    """Store the prices that differ from those in force at `valid_from`; return how many they were."""
    with transaction.atomic():
        known: dict[str, tuple[int | None, ...]] = {}
        for price in Price.objects.filter(upstream_id=upstream_id, valid_from__lte=valid_from).order_by("valid_from"):
            known[price.upstream_model] = (
                price.input_price,
                price.output_price,
                price.cache_read_price,
                price.cache_write_price,
                price.thinking_price,
            )
        fresh = [row for row in rows if known.get(row.model) != astuple(row)[1:]]
        prices = [_price(row, valid_from, upstream_id, origin) for row in fresh]
        Price.objects.bulk_create(prices, batch_size=500)
    return len(fresh)


def _price(row: PriceRow, valid_from: datetime, upstream_id: int | None, origin: str) -> Price:
    return Price(
        upstream_id=upstream_id,
        upstream_model=row.model,
        valid_from=valid_from,
        input_price=row.input,
        output_price=row.output,
        cache_read_price=row.cache_read,
        cache_write_price=row.cache_write,
        thinking_price=row.thinking,
        origin=origin[:150],
    )


def _csv_rows(text: str) -> Iterator[PriceRow]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    seen: set[str] = set()
    try:
        unknown = set(reader.fieldnames or ()) - {"model", *LITELLM_FIELDS}
        missing = {"model", "input", "output"} - set(reader.fieldnames or ())
        if unknown or missing:
            raise PriceListError(1, f"unknown columns {sorted(unknown)}, missing columns {sorted(missing)}")
        for cells in reader:
            line = reader.line_num
            model = (cells["model"] or "").strip()
            if None in cells or model in seen:
                raise PriceListError(line, "too many cells" if None in cells else f"{model!r} stands here twice")
            seen.add(model)
            prices = {kind: _per_token(cells.get(kind), MILLION, line) for kind in LITELLM_FIELDS}
            yield _row(model, prices, line)
    except csv.Error as exc:
        raise PriceListError(reader.line_num + 1, str(exc)) from None


def _litellm_rows(text: str, provider: str) -> Iterator[PriceRow]:
    for model, entry, line, body in _entries(text):
        if model == "sample_spec":
            continue
        if not isinstance(entry, dict):
            raise PriceListError(line, f"{model!r} is no object")
        if provider and entry.get("litellm_provider") != provider:
            continue
        if not {LITELLM_FIELDS["input"], LITELLM_FIELDS["output"]} <= entry.keys():
            continue
        prices = {
            kind: _per_token(entry.get(name), Decimal(1), line + _lines_before(body, name))
            for kind, name in LITELLM_FIELDS.items()
        }
        if prices["input"] or prices["output"]:
            yield _row(model.removeprefix(f"{provider}/") if provider else model, prices, line)


def _entries(text: str) -> Iterator[tuple[str, Any, int, str]]:
    """Yield the members of a JSON object one by one: name, value, line of the name, text of the value."""
    decoder = json.JSONDecoder(parse_float=Decimal)
    place = _after(text, 0, "{")
    seen: set[str] = set()
    while not text.startswith("}", place):
        try:
            name, end = decoder.raw_decode(text, place)
            start = _after(text, end, ":")
            value, end = decoder.raw_decode(text, start)
        except json.JSONDecodeError as exc:
            raise PriceListError(exc.lineno, exc.msg) from None
        line = text.count("\n", 0, place) + 1
        if not isinstance(name, str) or name in seen:
            raise PriceListError(line, f"{name!r} is no name, or stands here twice")
        seen.add(name)
        yield name, value, line, text[place:end]
        place = _skipped(text, end)
        place = _after(text, place, ",") if not text.startswith("}", place) else place


def _after(text: str, place: int, mark: str) -> int:
    place = _skipped(text, place)
    if not text.startswith(mark, place):
        raise PriceListError(text.count("\n", 0, place) + 1, f"expected {mark!r}")
    return _skipped(text, place + 1)


def _skipped(text: str, place: int) -> int:
    while place < len(text) and text[place] in " \t\r\n":
        place += 1
    return place


def _lines_before(body: str, name: str) -> int:
    found = re.search(rf'"{re.escape(name)}"\s*:', body)
    return body.count("\n", 0, found.start()) if found else 0


def _per_token(value: Any, per: Decimal, line: int) -> int | None:
    """Return a price in 1e-12 USD per token; None for an empty cell."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    try:
        price = Decimal(str(value).strip()) / per if not isinstance(value, bool) else Decimal("NaN")
    except InvalidOperation:
        price = Decimal("NaN")
    if not price.is_finite() or not 0 <= price <= PRICE_MAX:
        raise PriceListError(line, f"{str(value)[:40]!r} is no price")
    pico = int((price * PICO).to_integral_value())
    if price and not pico:
        raise PriceListError(line, f"{value} is less than can be stored")
    return pico


def _row(model: str, prices: dict[str, int | None], line: int) -> PriceRow:
    if not model or len(model) > MODEL_LENGTH_MAX or not model.isprintable():
        raise PriceListError(line, "the model has no usable name")
    if prices["input"] is None or prices["output"] is None:
        raise PriceListError(line, f"{model!r} needs a price for input and one for output")
    return PriceRow(model=model, **{kind: price for kind, price in prices.items() if price is not None})
