"""Numbers as people read them."""

from datetime import timedelta
from typing import Any

from django import template

from keys.roles import teams_of
from members.figures import NANO

register = template.Library()

THOUSAND = 1000
MINUTE_S, HOUR_S = 60, 3600
#: Below this a price is shown to the fourth digit: requests cost fractions of a cent.
SMALL_USD = 1


@register.filter
def usd(amount: float) -> str:
    return f"${amount:,.4f}" if 0 < amount < SMALL_USD else f"${amount:,.2f}"


@register.filter
def cost(figures: Any) -> str:
    """Show a sum's cost; say so where prices are missing from it."""
    if not figures.unpriced:
        return usd(figures.cost_usd)
    return f"{usd(figures.cost_usd)} + unpriced" if figures.cost_nano else "no price"


@register.filter
def percent_of(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f}" if whole else "0"


@register.filter
def tokens(number: float) -> str:
    for size, unit in ((THOUSAND**3, "G"), (THOUSAND**2, "M"), (THOUSAND, "k")):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return f"{number:.0f}"


@register.filter
def has_team(user: Any) -> bool:
    return bool(teams_of(user))


@register.filter
def nano_usd(nano: int) -> str:
    return usd(nano / NANO)


@register.filter
def span(time: timedelta) -> str:
    """Write a time as a few characters: 12 s, 7 min, 3 h."""
    seconds = time.total_seconds()
    if seconds < MINUTE_S:
        return f"{seconds:.0f} s"
    return f"{seconds / MINUTE_S:.0f} min" if seconds < HOUR_S else f"{seconds / HOUR_S:.0f} h"
