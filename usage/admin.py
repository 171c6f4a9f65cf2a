"""The ledger in the admin: to be read, not to be written."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from unfold.admin import ModelAdmin
from unfold.decorators import display

from usage.filters import CredentialFilter, DayFilter, ModelFilter, StateFilter, UserFilter
from usage.models import UsageRecord
from usage.paging import CappedPaginator
from usage.reports import today_summary
from usage.states import State
from usage.visibility import visible_to

__all__ = ["UsageRecordAdmin", "today_summary"]


class ReadOnlyAdmin(ModelAdmin):  # type: ignore[misc]  # unfold is untyped
    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(UsageRecord)
class UsageRecordAdmin(ReadOnlyAdmin):
    list_display = (
        "started",
        "user_name",
        "upstream_model",
        "credential_label",
        "shown_state",
        "input_tokens",
        "cached_tokens",
        "output_tokens",
        "cost",
        "ttft_ms",
        "duration_ms",
    )
    list_display_links = ("started",)
    list_filter = (("started_at", DayFilter), UserFilter, ModelFilter, CredentialFilter, StateFilter)
    list_filter_submit = True
    list_per_page = 50
    list_max_show_all = 50
    paginator = CappedPaginator
    show_full_result_count = False
    ordering = ("-id",)
    sortable_by = ()
    search_fields = ("request_id", "session_id")
    search_help_text = "A whole request id, or a whole session id"
    list_fullwidth = True

    fieldsets = (
        (None, {"fields": ("request_id", "attempt", "shown_state", "source", "notes", "started_at", "settled_at")}),
        ("Who", {"fields": ("user_name", "team_name", "token_name", "client_name", "client_version", "session_id")}),
        ("Where", {"fields": ("alias", "upstream_name", "upstream_model", "credential_label", "worker")}),
        (
            "Tokens",
            {
                "fields": (
                    "input_tokens",
                    "cache_read_tokens",
                    "cache_write_tokens",
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

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[UsageRecord], search_term: str
    ) -> tuple[QuerySet[UsageRecord], bool]:
        """Search by whole ids: the indexes answer, and no wildcard can burn the database."""
        term = search_term.strip()[:128].replace("\x00", "")
        if not term:
            return queryset, False
        return queryset.filter(request_id=term) | queryset.filter(session_id=term), False

    @admin.display(description="started")
    def started(self, record: UsageRecord) -> str:
        return f"{timezone.localtime(record.started_at):%Y-%m-%d %H:%M:%S}"

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

    @admin.display(description="cached")
    def cached_tokens(self, record: UsageRecord) -> int:
        return record.cache_read_tokens + record.cache_write_tokens

    @admin.display(description="cost (USD)")
    def cost(self, record: UsageRecord) -> str:
        return "unknown" if record.cost_nano is None else f"{record.cost_nano / 1e9:.6f}"
