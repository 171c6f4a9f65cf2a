"""Filters that write numbers and times for people."""

from datetime import datetime

from django import template
from django.utils import timezone

register = template.Library()

DASH = "\N{EN DASH}"


@register.filter
def figure(value: float | None, unit: str = "count") -> str:
    """Write a number: `count` with commas, `tokens` in few characters, `usd` from 1e-9 USD, `share` as percent, `ms` as a time."""
    if value is None:
        return DASH
    match unit:
        case "tokens":
            return compact(value)
        case "usd":
            return usd(value)
        case "share":
            return f"{100 * value:.1f} %"
        case "ms":
            return f"{value / 1000:,.2f} s" if value >= 1000 else f"{value:,.0f} ms"
    return f"{value:,.0f}"


@register.filter
def usd(nano: float | None) -> str:
    """Write 1e-9 USD with as many digits as it takes to see something."""
    if nano is None:
        return "unknown"
    dollars = nano / 1e9
    if dollars == 0 or dollars >= 1:
        return f"${dollars:,.2f}"
    return f"${dollars:.4f}" if dollars >= 0.01 else f"${dollars:.6f}"


@register.filter
def compact(value: float | None) -> str:
    """Write a large number in few characters: 12.3k, 4.5M; static/bridge/live.js does the same."""
    if value is None:
        return DASH
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 10 * size or (abs(value) >= size and size > 1e3):
            return f"{value / size:,.1f}{letter}"
    return f"{value:,.0f}"


@register.filter
def signed(percent: int | None) -> str:
    """Write a change with its sign."""
    return DASH if percent is None else f"{percent:+,d} %"


@register.filter
def clock(moment: datetime | None) -> str:
    """Write the time of day, UTC."""
    return DASH if moment is None else f"{timezone.localtime(moment):%H:%M:%S}"


@register.filter
def precise(moment: datetime | None) -> str:
    """Write the time of day to the millisecond, UTC."""
    return DASH if moment is None else f"{timezone.localtime(moment):%H:%M:%S.%f}"[:-3]


@register.filter
def at(moment: datetime | None) -> str:
    """Write day and time, UTC."""
    return DASH if moment is None else f"{timezone.localtime(moment):%Y-%m-%d %H:%M:%S}"


@register.filter
def label(code: str) -> str:
    """Write a code of ours as words."""
    return code.replace("_", " ")
