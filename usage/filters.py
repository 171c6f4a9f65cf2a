"""Filters of the usage list in the admin. Their choices come from the sums, never from the records."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.contrib.admin import ModelAdmin
from django.core.cache import cache
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from unfold.contrib.filters.admin import DropdownFilter, RangeDateFilter

from usage.ids import first_id_at
from usage.models import UsageDay, UsageRecord
from usage.periods import CLOCK_SLACK, day_start, parse_day
from usage.states import State
from usage.visibility import Scope, scope_of, within

CHOICES_OF = timedelta(days=90)
CHOICES_KEPT_S = 60
SEEN = ("user_id", "user_name", "upstream_model", "credential_id", "credential_label")


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
        first, last = (
            parse_day(self.used_parameters.get(f"{self.parameter_name}_{end}") or "") for end in ("from", "to")
        )
        end = day_start(last) + timedelta(days=1) if last else None
        return started_between(queryset, day_start(first) if first else None, end)


class _ChoiceFilter(DropdownFilter):  # type: ignore[misc]  # unfold is untyped
    field: str

    def queryset(self, request: HttpRequest, queryset: QuerySet[UsageRecord]) -> QuerySet[UsageRecord]:
        return queryset.filter(**{self.field: self.value()}) if self.value() else queryset


class _SeenFilter(_ChoiceFilter):
    """Offers what the last months' sums hold, by name."""

    label: str

    def has_output(self) -> bool:
        return True  # also without a choice a value in the address holds

    def lookups(self, request: HttpRequest, model_admin: "ModelAdmin[Model]") -> list[tuple[str, str]]:
        names = {str(row[self.field]): row[self.label] for row in seen(scope_of(request.user)) if row[self.field]}
        return sorted(((key, label or key) for key, label in names.items()), key=lambda pair: pair[1])


def seen(scope: Scope) -> list[dict[str, Any]]:
    """Return who used what with which credential, of what the scope may see; up to a minute old."""

    def read() -> list[dict[str, Any]]:
        days = within(scope, UsageDay.objects.filter(day__gte=timezone.now() - CHOICES_OF))
        return list(days.order_by().values(*SEEN).distinct())

    return cache.get_or_set(f"usage.seen.{hash(scope)}", read, CHOICES_KEPT_S) or []


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
