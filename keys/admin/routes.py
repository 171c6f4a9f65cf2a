from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.admin import ModelAdmin, TabularInline

from keys.models import Route, RouteTarget


class RouteTargetForm(forms.ModelForm):  # type: ignore[type-arg]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # The column's head is no label for each row. (A relation's widget wraps the one that is drawn.)
        for field in self.fields.values():
            drawn: Any = getattr(field.widget, "widget", field.widget)
            drawn.attrs["aria-label"] = field.label


class RouteTargetInline(TabularInline):  # type: ignore[misc]
    model = RouteTarget
    form = RouteTargetForm
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
