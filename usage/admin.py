"""The ledger in the admin: to be read, not to be written."""

from functools import partial
from typing import Any

from django.contrib import admin, messages
from django.contrib.auth.models import Group, User
from django.db.models import Case, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.functions import Concat
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from unfold.admin import ModelAdmin
from unfold.decorators import display

from keys.admin.pages import numbers
from keys.editing import WarnsOfOthers
from keys.models import ClientToken, Upstream
from keys.roles import sees_all_teams, teams_of, visible_people, visible_tokens
from keys.searching import SearchInTime
from usage.budgets import is_over, period_end
from usage.filters import (
    CredentialFilter,
    DayFilter,
    ModelFilter,
    NoteFilter,
    StateFilter,
    UpstreamFilter,
    UserFilter,
    export_links,
)
from usage.forms import EDITABLE, MICRO, NANO, BudgetForm, PriceForm
from usage.models import Budget, Price, UsageRecord
from usage.paging import CappedList
from usage.prices import KINDS, LONG_KINDS
from usage.reports import today_summary
from usage.states import State
from usage.templatetags.figures import compact, figure, usd
from usage.visibility import visible_to

__all__ = ["BudgetAdmin", "PriceAdmin", "UsageRecordAdmin", "today_summary"]


class ReadOnlyAdmin(SearchInTime, ModelAdmin):  # type: ignore[misc]  # unfold is untyped
    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(UsageRecord)
class UsageRecordAdmin(CappedList, ReadOnlyAdmin):
    list_display = (
        "started",
        "shown_state",
        "user_name",
        "upstream_model",
        "credential_label",
        numbers("input_tokens", "input"),
        "cached_tokens",
        numbers("output_tokens", "output"),
        "cost",
        numbers("ttft_ms", "TTFT", partial(figure, unit="ms")),
        numbers("duration_ms", "duration", partial(figure, unit="ms")),
    )
    list_display_links = None
    list_filter = (
        ("started_at", DayFilter),
        UserFilter,
        UpstreamFilter,
        ModelFilter,
        CredentialFilter,
        StateFilter,
        NoteFilter,
    )
    list_filter_submit = True
    # Counts beside each choice would read all records, once for each.
    show_facets = admin.ShowFacets.NEVER
    ordering = ("-id",)
    search_fields = ("request_id", "client_request_id", "session_id")
    search_help_text = "A whole request id, ours or the client's, or a whole session id"
    empty_words = "A record appears here with the first request to an upstream."
    list_fullwidth = True
    list_before_template = "usage/_records_export.html"

    fieldsets = (
        (
            None,
            {
                "fields": (
                    "request_id",
                    "client_request_id",
                    "attempt",
                    "shown_state",
                    "source",
                    "notes",
                    "started_at",
                    "settled_at",
                )
            },
        ),
        ("Who", {"fields": ("user_name", "team_name", "token_name", "client_name", "client_version", "session_id")}),
        ("Where", {"fields": ("alias", "upstream_name", "upstream_model", "credential_label", "worker")}),
        (
            "Tokens",
            {
                "fields": (
                    "input_tokens",
                    "cache_read_tokens",
                    "cache_write_tokens",
                    "cache_write_1h_tokens",
                    "output_tokens",
                    "thinking_tokens",
                    "cost",
                    "price_version",
                )
            },
        ),
        ("Answer", {"fields": ("stream", "http_status", "error_type", "stop_reason", "ttft_ms", "duration_ms")}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[UsageRecord]:
        records: QuerySet[UsageRecord] = super().get_queryset(request)
        return visible_to(request.user, records)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        context = {**(extra_context or {}), "exports": export_links(request.GET.dict())}
        answer: HttpResponse = super().changelist_view(request, context)
        return answer

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[UsageRecord], search_term: str
    ) -> tuple[QuerySet[UsageRecord], bool]:
        """Search by whole ids: the indexes answer, and no wildcard can burn the database."""
        term = search_term.strip()[:128].replace("\x00", "")
        if not term:
            return queryset, False
        return queryset.filter(Q(request_id=term) | Q(client_request_id=term) | Q(session_id=term)), False

    @admin.display(description="started")
    def started(self, record: UsageRecord) -> str:
        """Lead to the page of the whole request."""
        moment = f"{timezone.localtime(record.started_at):%Y-%m-%d %H:%M:%S}"
        link = reverse("usage_pages:request", args=[record.request_id]) if record.request_id else ""
        return format_html('<a href="{}">{}</a>', link, moment) if link else moment

    @display(  # type: ignore[untyped-decorator]  # unfold is untyped
        description="state",
        label={
            State.OK.label: "success",
            State.OPEN.label: "info",
            State.CLIENT_GONE.label: "warning",
            State.UPSTREAM_ERROR.label: "danger",
            State.TRUNCATED.label: "danger",
            State.TIMEOUT.label: "danger",
            State.LOST.label: "danger",
        },
    )
    def shown_state(self, record: UsageRecord) -> str:
        return State(record.state).label

    @display(description="cached", formatting="price")  # type: ignore[untyped-decorator]
    def cached_tokens(self, record: UsageRecord) -> str:
        return f"{record.cache_read_tokens + record.cache_write_tokens:,}"

    @display(description="cost", formatting="price")  # type: ignore[untyped-decorator]
    def cost(self, record: UsageRecord) -> str:
        return usd(record.cost_nano)


@admin.register(Budget)
class BudgetAdmin(WarnsOfOthers, SearchInTime, ModelAdmin):  # type: ignore[misc]  # unfold is untyped
    form = BudgetForm
    list_display = ("name", "used", "spent_of_limit", "whose", "begins_anew", "held", "enabled")
    list_filter = ("subject", "period", "enabled")
    search_fields = ("name",)
    search_help_text = "A budget's name"
    empty_words = "Without a budget nobody's spending is limited. One holds for a user, a team or a client token."
    readonly_fields = ("spent_shown", "reserved_shown", "period_shown")
    actions = ("forgive",)
    fieldsets = (
        (None, {"fields": ("name", "enabled")}),
        ("Whose: choose one of the three", {"fields": ("team", "user", "token")}),
        (
            "How much",
            {"fields": ("aliases", "amount", "unit", "period", "spent_shown", "reserved_shown", "period_shown")},
        ),
        ("Warnings", {"fields": ("warn_percents", "warn_emails", "warn_webhook")}),
    )

    def get_fieldsets(self, request: HttpRequest, obj: Budget | None = None) -> Any:
        if obj is not None:
            return self.fieldsets
        # What isn't stored yet has spent nothing.
        return [
            (title, {"fields": [name for name in options["fields"] if name not in self.readonly_fields]})
            for title, options in self.fieldsets
        ]

    def save_model(self, request: HttpRequest, obj: Budget, form: BudgetForm, change: bool) -> None:
        # What running requests spend and hold meanwhile is not the form's to write.
        obj.save(update_fields=EDITABLE if change else None)

    @admin.action(description="Begin anew now: forget what is spent", permissions=["change"])
    def forgive(self, request: HttpRequest, queryset: QuerySet[Budget]) -> None:
        """Let a budget count from nothing in the period that runs; records and reports stay, and so does what calls hold."""
        for budget in queryset:
            spent = self.spent_shown(budget)
            Budget.objects.filter(pk=budget.pk).update(spent=0, warned_percent=0)
            self.log_change(request, budget, f"Begun anew; {spent} were spent.")
        self.message_user(request, f"{len(queryset)} begun anew.", messages.SUCCESS)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Budget]:
        budgets: QuerySet[Budget] = super().get_queryset(request).annotate(owner=_owner())
        if sees_all_teams(request.user):
            return budgets
        tokens = visible_tokens(request.user)
        return budgets.filter(
            Q(subject="team", subject_id__in=teams_of(request.user))
            | Q(subject="token", subject_id__in=tokens.values("pk"))
            | Q(subject="user", subject_id__in=visible_people(request.user).values("pk"))
        )

    @admin.display(description="whose")
    def whose(self, budget: Budget) -> str:
        owner = getattr(budget, "owner", None)
        whose = f"{budget.get_subject_display()} {owner or f'{budget.subject_id}, since deleted'}"
        return f"{whose}, for {', '.join(budget.aliases)}" if budget.aliases else whose

    @admin.display(description="used")
    def used(self, budget: Budget) -> str:
        return f"{100 * _spent(budget) / budget.limit:.0f} %" if budget.limit else "-"

    @admin.display(description="spent")
    def spent_of_limit(self, budget: Budget) -> str:
        return f"{_short(budget, _spent(budget))} of {_short(budget, budget.limit)} {budget.get_unit_display()}"

    @admin.display(description="spent")
    def spent_shown(self, budget: Budget) -> str:
        return _amount(budget, _spent(budget))

    @admin.display(description="begins anew")
    def begins_anew(self, budget: Budget) -> str:
        end = period_end(budget.period, timezone.now())
        if end is None:
            return "never"
        return f"each {budget.get_period_display()}, next {end:{'%Y-%m-%d' if end.hour == 0 else '%H:%M'}}"

    @admin.display(description="held")
    def held(self, budget: Budget) -> str:
        return _short(budget, budget.reserved) if budget.reserved else "-"

    @admin.display(description="period")
    def period_shown(self, budget: Budget) -> str:
        end = period_end(budget.period, timezone.now())
        return f"{budget.get_period_display()}, until {end:%Y-%m-%d %H:%M} UTC" if end else "in all: never begins anew"

    @admin.display(description="held by running requests")
    def reserved_shown(self, budget: Budget) -> str:
        return _amount(budget, budget.reserved)


@admin.register(Price)
class PriceAdmin(ReadOnlyAdmin):
    """Prices are added, never changed: records name theirs."""

    form = PriceForm
    list_display = ("upstream_model", *(f"{kind}_usd" for kind in KINDS), "upstream_name", "since", "origin")
    search_fields = ("upstream_model",)
    search_help_text = "An upstream model; prices are in USD per million tokens"
    empty_words = (
        "Without a price the cost of requests stays unknown. Add prices one by one, or many from a file with"
        " `manage.py import_prices`."
    )
    fieldsets = (
        (None, {"fields": ("upstream_model", "upstream", "valid_from")}),
        ("USD per million tokens", {"fields": KINDS}),
        ("USD per million tokens of long requests", {"fields": ("long_above", *LONG_KINDS)}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Price]:
        names = Upstream.objects.filter(pk=OuterRef("upstream_id")).values("name")
        prices: QuerySet[Price] = super().get_queryset(request).annotate(upstream_named=Subquery(names))
        return prices

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm("usage.add_price"))

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return self.fieldsets
        fields = ("upstream_model", "upstream_name", "since", *(f"{kind}_usd" for kind in KINDS), "long", "origin")
        return ((None, {"fields": fields}),)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        # The fields of the kinds are the form's own, not the model's: the admin must not look for them there.
        return super().get_form(request, obj, change, **kwargs) if obj else PriceForm

    @admin.display(description="upstream", ordering="upstream_id")
    def upstream_name(self, price: Price) -> str:
        if price.upstream_id is None:
            return "any"
        return getattr(price, "upstream_named", None) or f"{price.upstream_id}, since deleted"

    @admin.display(description="valid from", ordering="valid_from")
    def since(self, price: Price) -> str:
        return f"{timezone.localtime(price.valid_from):%Y-%m-%d %H:%M} UTC"

    @admin.display(description="input")
    def input_usd(self, price: Price) -> str:
        return _per_million(price.input_price)

    @admin.display(description="output")
    def output_usd(self, price: Price) -> str:
        return _per_million(price.output_price)

    @admin.display(description="cache read")
    def cache_read_usd(self, price: Price) -> str:
        return _per_million(price.cache_read_price, "as input")

    @admin.display(description="cache write")
    def cache_write_usd(self, price: Price) -> str:
        return _per_million(price.cache_write_price, "as input")

    @admin.display(description="cache write, 1 h")
    def cache_write_1h_usd(self, price: Price) -> str:
        return _per_million(price.cache_write_1h_price, "as cache write")

    @admin.display(description="long requests")
    def long(self, price: Price) -> str:
        if price.long_above is None:
            return "cost the same"
        prices = {kind: getattr(price, f"{kind}_price") for kind in LONG_KINDS}
        told = (
            f"{kind.removeprefix('long_').replace('_', ' ')} {_per_million(at)}"
            for kind, at in prices.items()
            if at is not None
        )
        return f"above {price.long_above:,} tokens of input: {', '.join(told)}"

    @admin.display(description="thinking")
    def thinking_usd(self, price: Price) -> str:
        return _per_million(price.thinking_price, "as output")


def _owner() -> Case:
    """Find the name of whose a budget is, in the query of the list; NULL for who was deleted."""
    owners = {
        Budget.Subject.USER: User.objects.filter(pk=OuterRef("subject_id")).values("username"),
        Budget.Subject.TEAM: Group.objects.filter(pk=OuterRef("subject_id")).values("name"),
        Budget.Subject.TOKEN: ClientToken.objects.filter(pk=OuterRef("subject_id")).values(
            named=Concat("name", Value(" of "), "user__username")
        ),
    }
    return Case(*(When(subject=kind, then=Subquery(names)) for kind, names in owners.items()))


def _spent(budget: Budget) -> int:
    """Return what is spent of this period: what is stored may be of one that is over."""
    return 0 if is_over(budget.period, budget.period_start, timezone.now()) else budget.spent


def _amount(budget: Budget, amount: int) -> str:
    return f"{_number(budget, amount)} {budget.get_unit_display()}"


def _short(budget: Budget, amount: int) -> str:
    return compact(amount) if budget.unit == Budget.Unit.TOKENS else _number(budget, amount)


def _number(budget: Budget, amount: int) -> str:
    if budget.unit == Budget.Unit.TOKENS:
        return f"{amount:,}"
    return f"{amount / NANO:,.2f}" if amount == 0 or amount >= NANO else f"{amount / NANO:.4f}"


def _per_million(price: int | None, missing: str = "") -> str:
    return missing if price is None else f"{price / MICRO:f}".rstrip("0").rstrip(".")
