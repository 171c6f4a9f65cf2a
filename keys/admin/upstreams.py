from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from unfold.admin import ModelAdmin

from keys.egress import check_base_url
from keys.models import Upstream, UpstreamModel


@admin.register(Upstream)
class UpstreamAdmin(ModelAdmin):  # type: ignore[misc]
    list_display = ["name", "dialect", "base_url", "usable_credentials", "enabled"]
    list_filter = ["dialect", "enabled"]
    search_fields = ["name", "base_url"]
    readonly_fields = ["created_at"]
    fieldsets = [
        (None, {"fields": ["name", "dialect", "base_url", "enabled"]}),
        ("Quirks", {"fields": ["profile", "profile_overrides"]}),
        (
            "Patience",
            {"fields": ["connect_timeout_s", "first_byte_timeout_s", "idle_timeout_s", "total_timeout_s"]},
        ),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        usable = Count("credentials", filter=Q(credentials__enabled=True) & ~Q(credentials__sealed_secret=""))
        queryset: QuerySet[Any] = super().get_queryset(request).annotate(usable=usable)
        return queryset

    @admin.display(description="credentials with a secret", ordering="usable")
    def usable_credentials(self, upstream: Any) -> int:
        return int(upstream.usable)

    def save_model(self, request: HttpRequest, obj: Upstream, form: Any, change: bool) -> None:
        obj.base_url = check_base_url(obj.base_url, settings.ALLOW_PRIVATE_UPSTREAMS)
        had_secrets = change and obj.credentials.exclude(sealed_secret="").exists()
        super().save_model(request, obj, form, change)
        if had_secrets and not obj.credentials.exclude(sealed_secret="").exists():
            self.message_user(
                request,
                "The base URL changed, so the secrets of its credentials were cleared: enter them again.",
                messages.WARNING,
            )


@admin.register(UpstreamModel)
class UpstreamModelAdmin(ModelAdmin):  # type: ignore[misc]
    list_display = ["name", "upstream", "context_window", "max_output_tokens", "tools", "vision", "pdf", "reasoning"]
    list_filter = [("upstream", admin.RelatedOnlyFieldListFilter), "tools", "vision", "pdf", "reasoning"]
    list_select_related = ["upstream"]
    search_fields = ["name", "upstream__name"]
