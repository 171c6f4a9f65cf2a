"""Price lists: LiteLLM's public JSON file and CSV, read whole or not at all.

* PriceListError   a line of the file is wrong; nothing was imported

LiteLLM (https://github.com/BerriAI/litellm, model_prices_and_context_window.json, read 2026-11-30): an object of
models, each with `input_cost_per_token` and so on, in USD per token. Models without a price per token (images,
audio, rerankers) are skipped, and so is `sample_spec`. Fields that are not named here are ignored.

CSV: a header, then a model per line, in USD per million tokens. Columns: `model`, `input`, `output`, and if need
be `cache_read`, `cache_write`, `cache_write_1h`, `thinking`. An empty cell is an unknown, which counts as input or as
output. Of inputs longer than `long_above` tokens: `long_input`, and if need be `long_output`, `long_cache_read` and so on;
LiteLLM calls these `input_cost_per_token_above_200k_tokens`. Where it has several such bounds, the lowest is taken.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from django.db import transaction

from usage.models import Price

PICO = Decimal(10) ** 12
MILLION = Decimal(10) ** 6
#: In USD per million tokens: whoever asks more took one unit for the other.
PRICE_MAX = 10_000
MODEL_LENGTH_MAX = 200

LITELLM_FIELDS = {
    "input": "input_cost_per_token",
    "output": "output_cost_per_token",
    "cache_read": "cache_read_input_token_cost",
    "cache_write": "cache_creation_input_token_cost",
    "cache_write_1h": "cache_creation_input_token_cost_above_1hr",
    "thinking": "output_cost_per_reasoning_token",
}
KINDS = tuple(LITELLM_FIELDS)
#: Of the tokens that may have another price in long requests.
LONG_KINDS = ("long_input", "long_output", "long_cache_read", "long_cache_write", "long_cache_write_1h")
PRICED = (*KINDS, *LONG_KINDS)
LONG_FIELD = re.compile(r"input_cost_per_token_above_([1-9][0-9]{0,4})k_tokens")


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
    cache_write_1h: int | None = None
    thinking: int | None = None
    #: Tokens of input, cached ones included, above which the long prices hold.
    long_above: int | None = None
    long_input: int | None = None
    long_output: int | None = None
    long_cache_read: int | None = None
    long_cache_write: int | None = None
    long_cache_write_1h: int | None = None


def _columns(row: PriceRow) -> dict[str, int | None]:
    """Return a row's prices by the columns of `Price`."""
    return {f"{kind}_price": getattr(row, kind) for kind in PRICED} | {"long_above": row.long_above}


def is_half_long(prices: Mapping[str, Any]) -> bool:
    """Tell whether there are prices of long requests without `long_above` or `long_input`, or a bound without prices."""
    has_long = any(prices.get(kind) is not None for kind in LONG_KINDS)
    return {prices.get("long_above") is None, prices.get("long_input") is None} != {not has_long}


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
        known: dict[str, Price] = {}
        for price in Price.objects.filter(upstream_id=upstream_id, valid_from__lte=valid_from).order_by("valid_from"):
            known[price.upstream_model] = price
        fresh = [row for row in rows if not _is_as(known.get(row.model), row)]
        prices = [_price(row, valid_from, upstream_id, origin) for row in fresh]
        Price.objects.bulk_create(prices, batch_size=500)
    return len(fresh)


def _price(row: PriceRow, valid_from: datetime, upstream_id: int | None, origin: str) -> Price:
    return Price(
        upstream_id=upstream_id,
        upstream_model=row.model,
        valid_from=valid_from,
        origin=origin[:150],
        **_columns(row),
    )


def _is_as(price: Price | None, row: PriceRow) -> bool:
    return price is not None and all(getattr(price, column) == value for column, value in _columns(row).items())


def _csv_rows(text: str) -> Iterator[PriceRow]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    seen: set[str] = set()
    try:
        unknown = set(reader.fieldnames or ()) - {"model", "long_above", *PRICED}
        missing = {"model", "input", "output"} - set(reader.fieldnames or ())
        if unknown or missing:
            raise PriceListError(1, f"unknown columns {sorted(unknown)}, missing columns {sorted(missing)}")
        for cells in reader:
            line = reader.line_num
            model = (cells["model"] or "").strip()
            if None in cells or model in seen:
                raise PriceListError(line, "too many cells" if None in cells else f"{model!r} stands here twice")
            seen.add(model)
            prices = {kind: _per_token(cells.get(kind), MILLION, line) for kind in PRICED}
            prices["long_above"] = _bound(cells.get("long_above"), line)
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
        prices |= _long_prices(entry, line, body)
        if prices["input"] or prices["output"]:
            yield _row(model.removeprefix(f"{provider}/") if provider else model, prices, line)


def _long_prices(entry: dict[str, Any], line: int, body: str) -> dict[str, int | None]:
    """Return the prices above the lowest bound that an entry names; none when it names none."""
    bounds = [
        int(found.group(1)) for name in entry if (found := LONG_FIELD.fullmatch(name)) and entry[name] is not None
    ]
    if not bounds:
        return {}
    names = {kind: f"{LITELLM_FIELDS[kind.removeprefix('long_')]}_above_{min(bounds)}k_tokens" for kind in LONG_KINDS}
    return {"long_above": min(bounds) * 1000} | {
        kind: _per_token(entry.get(name), Decimal(1), line + _lines_before(body, name)) for kind, name in names.items()
    }


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
    most = PRICE_MAX / MILLION
    if not price.is_finite() or not 0 <= price <= most:
        raise PriceListError(line, f"{str(value)[:40]!r} is no price of at most {(most * per).normalize():f} USD")
    pico = int((price * PICO).to_integral_value())
    if price and not pico:
        raise PriceListError(line, f"{value} is less than can be stored")
    return pico


def _bound(value: str | None, line: int) -> int | None:
    """Return a number of tokens; None for an empty cell."""
    text = (value or "").strip()
    if text and not re.fullmatch(r"[1-9][0-9]{0,8}", text, re.ASCII):
        raise PriceListError(line, f"{text[:40]!r} is no number of tokens")
    return int(text) if text else None


def _row(model: str, prices: dict[str, int | None], line: int) -> PriceRow:
    if not model or len(model) > MODEL_LENGTH_MAX or not model.isprintable():
        raise PriceListError(line, "the model has no usable name")
    if prices["input"] is None or prices["output"] is None:
        raise PriceListError(line, f"{model!r} needs a price for input and one for output")
    if is_half_long(prices):
        raise PriceListError(line, f"{model!r} needs both long_above and long_input, or no long prices")
    return PriceRow(model=model, **{kind: price for kind, price in prices.items() if price is not None})
