from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from unfold.admin import ModelAdmin
from unfold.decorators import display
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldAdminTextInputWidget

from keys.admin.leaks import LeakHints
from keys.editing import WarnsOfOthers
from keys.leaks import Kind
from keys.models import ClientToken
from keys.networks import parse_networks
from keys.roles import visible_tokens
from keys.searching import SearchInTime
from keys.tokens import LIFE_DEFAULT, issue_token, revoke_token

DAYS_MAX = 365


class ClientTokenForm(forms.ModelForm):  # type: ignore[type-arg]
    days = forms.IntegerField(
        label="Expires after days",
        min_value=1,
        max_value=DAYS_MAX,
        initial=LIFE_DEFAULT.days,
        widget=UnfoldAdminIntegerFieldWidget,
    )
    models = forms.CharField(
        label="Model aliases",
        required=False,
        widget=UnfoldAdminTextInputWidget,
        help_text="That it may use: names or patterns such as claude-*, with commas between. Empty means all.",
    )

    networks = forms.CharField(
        required=False,
        widget=UnfoldAdminTextInputWidget,
        help_text="Addresses and networks that it may be used from: 10.0.0.0/8, 192.0.2.7. Empty means everywhere.",
    )

    class Meta:
        model = ClientToken
        fields = ["user", "name", "rpm", "tpm", "concurrency"]
        help_texts = {
            "name": "To tell a member's tokens apart: laptop, ci.",
            "rpm": "Empty: no limit.",
            "tpm": "Empty: no limit.",
            "concurrency": "Answers that may run at the same time. Empty: no limit.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            del self.fields["days"]
            self.fields["models"].initial = ", ".join(self.instance.scopes)
            self.initial["networks"] = ", ".join(self.instance.networks)

    def clean_models(self) -> list[str]:
        return [name for raw in self.cleaned_data["models"].split(",") if (name := raw.strip())]

    def clean_networks(self) -> list[str]:
        try:
            return parse_networks(self.cleaned_data["networks"])
        except ValueError as exc:
            raise forms.ValidationError(str(exc)) from exc


class StateFilter(admin.SimpleListFilter):
    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("valid", "valid"), ("expired", "expired"), ("revoked", "revoked")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[ClientToken]) -> QuerySet[ClientToken]:
        now = timezone.now()
        match self.value():
            case "valid":
                return queryset.filter(revoked_at=None, expires_at__gt=now)
            case "expired":
                return queryset.filter(revoked_at=None, expires_at__lte=now)
            case "revoked":
                return queryset.exclude(revoked_at=None)
        return queryset


@admin.register(ClientToken)
class ClientTokenAdmin(LeakHints, WarnsOfOthers, SearchInTime, ModelAdmin):  # type: ignore[misc]
    form = ClientTokenForm
    leak_kind = Kind.TOKEN
    remedy = "Its member can rotate it on their own page; “Revoke” in the list of tokens ends it at once."
    list_display = ["shown", "user", "name", "state", "expires_at", "last_used_at"]
    list_filter = [StateFilter, ("user", admin.RelatedOnlyFieldListFilter)]
    list_select_related = ["user"]
    search_fields = ["user__username", "name", "last_four"]
    search_help_text = "A user, a token's name, or its last four characters"
    empty_words = "A client token is what a member's client shows Bridge. Members issue their own on their page."
    autocomplete_fields = ["user"]
    readonly_fields = ["shown", "state", "created_at", "expires_at", "revoked_at", "last_used_at"]
    actions = ["revoke"]

    def get_fields(self, request: HttpRequest, obj: ClientToken | None = None) -> list[str]:
        if obj is None:
            return ["user", "name", "days", "models", "networks", "rpm", "tpm", "concurrency"]
        return [
            "shown",
            "user",
            "name",
            "state",
            "models",
            "networks",
            "rpm",
            "tpm",
            "concurrency",
            *self.readonly_fields[2:],
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: ClientToken | None = None) -> list[str]:
        return [*self.readonly_fields, "user"] if obj else []

    def get_queryset(self, request: HttpRequest) -> QuerySet[ClientToken]:
        everything: QuerySet[ClientToken] = super().get_queryset(request)
        return everything.filter(pk__in=visible_tokens(request.user).values("pk"))

    def _get_obj_does_not_exist_redirect(self, request: HttpRequest, opts: Any, object_id: str) -> HttpResponse:
        # Another team's token answers as one that never was, on every page of it.
        raise Http404

    @admin.display(description="token")
    def shown(self, token: ClientToken) -> str:
        return str(token)

    @display(description="state", label={"valid": "success", "expired": "warning", "revoked": "danger"})  # type: ignore[untyped-decorator]
    def state(self, token: ClientToken) -> str:
        if token.revoked_at is not None:
            return "revoked"
        return "valid" if token.expires_at > timezone.now() else "expired"

    def save_model(self, request: HttpRequest, obj: ClientToken, form: ClientTokenForm, change: bool) -> None:
        obj.scopes, obj.networks = form.cleaned_data["models"], form.cleaned_data["networks"]
        if change:
            obj.save(update_fields=["name", "scopes", "networks", "rpm", "tpm", "concurrency"])
            return
        row, request.plain_token = issue_token(  # type: ignore[attr-defined]
            obj.user,
            obj.name,
            life=timedelta(days=form.cleaned_data["days"]),
            scopes=obj.scopes,
            networks=obj.networks,
            rpm=obj.rpm,
            tpm=obj.tpm,
            concurrency=obj.concurrency,
        )
        obj.__dict__.update({field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields})
        obj._state.adding = False

    def response_add(
        self, request: HttpRequest, obj: ClientToken, post_url_continue: str | None = None
    ) -> HttpResponse:
        """Show the plain token in this answer: a message would carry it through a cookie or the session."""
        context = {
            **self.admin_site.each_context(request),
            "title": "Client token issued",
            "opts": self.opts,
            "token": obj,
            "plain": request.plain_token,  # type: ignore[attr-defined]
        }
        return TemplateResponse(request, "keys/token_issued.html", context, headers={"Cache-Control": "no-store"})

    @admin.action(description="Revoke", permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ClientToken]) -> None:
        revoked = [token for token in queryset if revoke_token(token.pk)]
        for token in revoked:
            self.log_change(request, token, "Revoked.")
        self.message_user(request, f"{len(revoked)} revoked.", messages.SUCCESS)
