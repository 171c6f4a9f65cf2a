"""Questions to the ledger, answered from the hourly sums."""

from datetime import datetime
from typing import Any

from django.db.models import Q, Sum
from django.db.models.functions import Coalesce
from django.utils import timezone

from usage.models import UsageHour
from usage.states import ERROR_STATES

TOKEN_KINDS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "thinking_tokens")


def today_summary(now: datetime | None = None) -> dict[str, Any]:
    """Sum up the day so far (UTC): requests, attempts, errors, tokens by kind, cost in 1e-9 USD."""
    midnight = (now or timezone.now()).replace(hour=0, minute=0, second=0, microsecond=0)
    return UsageHour.objects.filter(hour__gte=midnight).aggregate(
        errors=Coalesce(Sum("attempts", filter=Q(state__in=ERROR_STATES)), 0),
        **{name: Coalesce(Sum(name), 0) for name in ("requests", "attempts", "unpriced", "cost_nano", *TOKEN_KINDS)},
    )
