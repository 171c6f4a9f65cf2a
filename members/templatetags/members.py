"""Numbers as people read them."""

from typing import Any

from django import template

from keys.roles import teams_of

register = template.Library()

THOUSAND = 1000
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
    return f"{100 * part / whole:.1f}"


@register.filter
def tokens(number: float) -> str:
    for size, unit in ((THOUSAND**3, "G"), (THOUSAND**2, "M"), (THOUSAND, "k")):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return f"{number:.0f}"


@register.filter
def has_team(user: Any) -> bool:
    return bool(teams_of(user))
