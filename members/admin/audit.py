from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from unfold.admin import ModelAdmin
from unfold.contrib.filters.admin import RangeDateTimeFilter

from keys.searching import SearchInTime
from members.models import AuditEntry
from usage.paging import CappedList


@admin.register(AuditEntry)
class AuditEntryAdmin(CappedList, SearchInTime, ModelAdmin):  # type: ignore[misc]  # unfold is untyped
    list_display = ["time", "who", "address", "action", "kind", "name", "changed"]
    list_display_links = ["time"]
    list_filter = [("at", RangeDateTimeFilter), "kind", "action"]
    list_filter_submit = True
    search_fields = ["actor", "before", "after", "address"]
    search_help_text = "Who, from where, or the name of what was changed"
    fields = ["at", "who", "address", "action", "kind", "subject_id", "before", "after", "changed"]

    @admin.display(description="at (UTC)")
    def time(self, entry: AuditEntry) -> str:
        return f"{entry.at:%Y-%m-%d %H:%M:%S}"

    @admin.display(description="who")
    def who(self, entry: AuditEntry) -> str:
        return entry.actor or "nobody logged in"

    @admin.display(description="name")
    def name(self, entry: AuditEntry) -> str:
        renamed = entry.before and entry.after and entry.before != entry.after
        return f"{entry.before} → {entry.after}" if renamed else entry.after or entry.before

    @admin.display(description="fields")
    def changed(self, entry: AuditEntry) -> str:
        return ", ".join(entry.fields) or "-"

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
