from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.admin import ModelAdmin, StackedInline

from keys.editing import WarnsOfOthers
from keys.models import Route, RouteTarget
from keys.searching import SearchInTime


class RouteTargetForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = RouteTarget
        fields = ["upstream", "upstream_model", "position", "weight"]
        help_texts = {"weight": "Its share of the requests among targets of equal position."}


class RouteTargetInline(StackedInline):  # type: ignore[misc]
    """One under the other: a table's head is out of sight on a phone."""

    model = RouteTarget
    form = RouteTargetForm
    verbose_name = "target"
    verbose_name_plural = "Leads to"
    extra = 0
    min_num = 1
    fields = [("upstream", "upstream_model"), ("position", "weight")]


@admin.register(Route)
class RouteAdmin(WarnsOfOthers, SearchInTime, ModelAdmin):  # type: ignore[misc]
    list_display = ["alias", "leads_to", "enabled"]
    list_filter = ["enabled", ("targets__upstream", admin.RelatedOnlyFieldListFilter)]
    search_fields = ["alias", "targets__upstream_model"]
    search_help_text = "An alias, or the upstream model that it leads to"
    empty_words = "A route leads a name that clients send, such as claude-*, to a model of an upstream. Without one nothing is served."
    inlines = [RouteTargetInline]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        queryset: QuerySet[Any] = super().get_queryset(request).prefetch_related("targets__upstream")
        return queryset

    @admin.display(description="leads to")
    def leads_to(self, route: Route) -> str:
        return ", then ".join(str(target) for target in route.targets.all()) or "-"
