"""Filters of the usage list in the admin. Their choices come from the hourly sums, never from the records."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.admin import ModelAdmin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from unfold.contrib.filters.admin import DropdownFilter, RangeDateFilter

from usage.ids import first_id_at
from usage.models import UsageHour, UsageRecord
from usage.states import State

#: How far the clocks of a worker (ids) and of Postgres (`started_at`) may be apart.
CLOCK_SLACK = timedelta(hours=2)
CHOICES_OF = timedelta(days=90)


def started_between(
    records: QuerySet[UsageRecord], start: datetime | None, end: datetime | None
) -> QuerySet[UsageRecord]:
    """Keep the records of a half-open time. The bounds on the id let Postgres skip whole partitions."""
    if start is not None:
        records = records.filter(started_at__gte=start, id__gte=first_id_at(start - CLOCK_SLACK))
    if end is not None:
        records = records.filter(started_at__lt=end, id__lt=first_id_at(end + CLOCK_SLACK))
    return records


class DayFilter(RangeDateFilter):  # type: ignore[misc]  # unfold is untyped
    def queryset(self, request: HttpRequest, queryset: QuerySet[UsageRecord]) -> QuerySet[UsageRecord]:
        first, last = (_day(self.used_parameters.get(f"{self.parameter_name}_{end}")) for end in ("from", "to"))
        return started_between(queryset, first, last and last + timedelta(days=1))


class _ChoiceFilter(DropdownFilter):  # type: ignore[misc]  # unfold is untyped
    field: str

    def queryset(self, request: HttpRequest, queryset: QuerySet[UsageRecord]) -> QuerySet[UsageRecord]:
        return queryset.filter(**{self.field: self.value()}) if self.value() else queryset


class _SeenFilter(_ChoiceFilter):
    """Offers what the last months' sums hold, by name."""

    label: str

    def lookups(self, request: HttpRequest, model_admin: "ModelAdmin[Model]") -> list[tuple[str, str]]:
        since = timezone.now() - CHOICES_OF
        seen = UsageHour.objects.filter(hour__gte=since).exclude(**{f"{self.field}__isnull": True})
        pairs = seen.order_by().values_list(self.field, self.label).distinct()
        return sorted({str(key): label or str(key) for key, label in pairs}.items(), key=lambda pair: pair[1])


class UserFilter(_SeenFilter):
    title, parameter_name, field, label = "user", "user", "user_id", "user_name"


class ModelFilter(_SeenFilter):
    title, parameter_name, field, label = "upstream model", "model", "upstream_model", "upstream_model"


class CredentialFilter(_SeenFilter):
    title, parameter_name, field, label = "credential", "credential", "credential_id", "credential_label"


class StateFilter(_ChoiceFilter):
    title, parameter_name, field = "state", "state", "state"

    def lookups(self, request: HttpRequest, model_admin: "ModelAdmin[Model]") -> Iterable[tuple[str, Any]]:
        return State.choices


def _day(text: Any) -> datetime | None:
    """Read a day as its first moment; None for what is no day."""
    parse: Callable[[str], datetime] = datetime.fromisoformat
    try:
        return parse(text).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=UTC) if text else None
    except (ValueError, TypeError):
        return None
