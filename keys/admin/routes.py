from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.admin import ModelAdmin, TabularInline

from keys.models import Route, RouteTarget


class RouteTargetInline(TabularInline):  # type: ignore[misc]
    model = RouteTarget
    extra = 0
    min_num = 1
    fields = ["position", "upstream", "upstream_model", "weight"]


@admin.register(Route)
class RouteAdmin(ModelAdmin):  # type: ignore[misc]
    list_display = ["alias", "leads_to", "enabled"]
    list_filter = ["enabled", ("targets__upstream", admin.RelatedOnlyFieldListFilter)]
    search_fields = ["alias", "targets__upstream_model"]
    inlines = [RouteTargetInline]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        queryset: QuerySet[Any] = super().get_queryset(request).prefetch_related("targets__upstream")
        return queryset

    @admin.display(description="leads to")
    def leads_to(self, route: Route) -> str:
        return ", then ".join(str(target) for target in route.targets.all()) or "-"
