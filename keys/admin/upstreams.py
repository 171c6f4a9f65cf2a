from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.html import format_html, format_html_join
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from unfold.admin import ModelAdmin
from unfold.decorators import action, display
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from keys.admin.carrying import CarryingAdmin
from keys.admin.pages import COLOURS, numbers, object_page, render_states
from keys.credentials import Added, add_secrets
from keys.editing import WarnsOfOthers
from keys.egress import check_base_url
from keys.model_sync import Synced, sync_models
from keys.models import PLAIN, Tools, Upstream, UpstreamModel
from keys.outside import Unanswered
from keys.repairs import repairs_of
from keys.ring import key_ring
from keys.searching import SearchInTime
from keys.standing import OF_CREDENTIALS, upstream_state
from translator.core.profiles import PROFILES

#: Colours of what is missing, as those of the credentials.
OF_UPSTREAM = {words: COLOURS.get(state, "danger") for state, words in OF_CREDENTIALS.items()} | {
    "no credential": "danger"
}


class UpstreamForm(forms.ModelForm):  # type: ignore[type-arg]
    profile = forms.ChoiceField(
        choices=[("", "none that is known"), *((name, name) for name in PROFILES if name != PLAIN)],
        required=False,
        widget=UnfoldAdminSelectWidget,
        help_text="How upstreams of one dialect differ. docs/profiles.md lists what each profile means.",
    )

    class Meta:
        model = Upstream
        fields = [
            "name",
            "base_url",
            "dialect",
            "enabled",
            "profile",
            "profile_overrides",
            "connect_timeout_s",
            "first_byte_timeout_s",
            "idle_timeout_s",
            "total_timeout_s",
        ]
        widgets = {"profile_overrides": UnfoldAdminTextareaWidget(attrs={"rows": 4, "spellcheck": "false"})}
        labels = {
            "connect_timeout_s": "Connect",
            "first_byte_timeout_s": "First byte",
            "idle_timeout_s": "Silence",
            "total_timeout_s": "Whole answer",
        }
        help_texts = {
            "name": "Letters, digits and hyphens. Routes, reports and commands call it so.",
            "dialect": "What it speaks. Anthropic messages are passed through, the others are translated.",
            "enabled": "Off, no request goes there; routes use their other targets.",
            "profile_overrides": 'Switches that differ from the profile, as JSON such as {"stream_usage": false}; usually {}.',
            "connect_timeout_s": "Seconds until the connection must stand.",
            "first_byte_timeout_s": "Seconds until the first of the answer's content.",
            "idle_timeout_s": "Seconds between two pieces of an answer.",
            "total_timeout_s": "Seconds that an answer may take in all.",
        }


class PasteForm(forms.Form):
    label = forms.SlugField(
        initial="key",
        max_length=90,
        widget=UnfoldAdminTextInputWidget,
        help_text="The new credentials are called so, with a number.",
    )
    secrets = forms.CharField(
        strip=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 12, "spellcheck": "false"}),
        help_text="One a line. Lines of a shell or an .env file are understood; blank ones and # comments don't count.",
    )


@admin.register(Upstream)
class UpstreamAdmin(WarnsOfOthers, CarryingAdmin):
    form = UpstreamForm
    list_display = [
        "name",
        "state",
        numbers("usable", "credentials with a secret"),
        "dialect",
        "base_url",
        "enabled",
    ]
    list_filter = ["dialect", "enabled"]
    search_fields = ["name", "base_url"]
    search_help_text = "A name, or part of a base URL"
    empty_words = (
        "An upstream is a provider's API, or a server of your own, that answers for your models. Its keys come next."
    )
    readonly_fields = ["state", "states"]
    actions_detail = ["paste", "sync"]
    fieldsets = [
        (None, {"fields": ["name", "base_url", "dialect", "enabled"]}),
        ("What is known of it", {"fields": ["state", "states"]}),
        ("Quirks", {"fields": ["profile", "profile_overrides"]}),
        (
            "Patience, in seconds",
            {"fields": ["connect_timeout_s", "first_byte_timeout_s", "idle_timeout_s", "total_timeout_s"]},
        ),
    ]

    def get_fieldsets(self, request: HttpRequest, obj: Upstream | None = None) -> Any:
        # Nothing is known of what isn't stored yet.
        return [part for part in self.fieldsets if obj is not None or part[0] != "What is known of it"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        usable = Count("credentials", filter=Q(credentials__enabled=True) & ~Q(credentials__sealed_secret=""))
        queryset: QuerySet[Any] = super().get_queryset(request).annotate(usable=usable)
        return queryset.prefetch_related("states", "credentials__states")

    @display(description="state", label=COLOURS | OF_UPSTREAM)  # type: ignore[untyped-decorator]
    def state(self, upstream: Upstream) -> str:
        return upstream_state(upstream, key_ring())

    @admin.display(description="states")
    def states(self, upstream: Upstream) -> str:
        return render_states(upstream.states.all())

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

    def has_paste_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return request.user.has_perm("keys.add_credential")

    def has_sync_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return request.user.has_perm("keys.add_upstreammodel")

    @action(description="Paste keys", url_path="paste", icon="content_paste", permissions=["paste"])  # type: ignore[untyped-decorator]
    @method_decorator(sensitive_post_parameters("secrets"))
    @method_decorator(sensitive_variables())
    def paste(self, request: HttpRequest, object_id: str) -> HttpResponse:
        upstream = get_object_or_404(Upstream, pk=object_id)
        form = PasteForm(request.POST or None)
        added = None
        if form.is_valid():
            added = add_secrets(upstream, form.cleaned_data["secrets"].splitlines(), label=form.cleaned_data["label"])
            for credential in added.credentials:
                self.log_change(request, upstream, f"Added credential {credential.label}.")
        # The form is shown anew rather than again: what was pasted is never given back.
        again = PasteForm(initial={"label": form.data.get("label", "key")})
        errors = [error for messages in form.errors.values() for error in messages]
        title = f"Paste keys for {upstream}"
        return object_page(
            self,
            request,
            upstream,
            "keys/form_page.html",
            title,
            form=again,
            verb="Add",
            lines=[*errors, *_told(added)],
        )

    @action(description="Sync models", url_path="sync", icon="sync", permissions=["sync"])  # type: ignore[untyped-decorator]
    def sync(self, request: HttpRequest, object_id: str) -> HttpResponse:
        upstream = get_object_or_404(Upstream, pk=object_id)
        if request.method != "POST":
            intro = f"Bridge asks {upstream.base_url} for its models, and adds those that it doesn't know."
            return object_page(
                self, request, upstream, "keys/form_page.html", f"Sync models of {upstream}", intro=intro, verb="Ask"
            )
        try:
            synced = sync_models(upstream)
        except Unanswered as exc:
            self.message_user(request, f"{upstream} gave no list: {exc}", messages.ERROR)
        else:
            self.log_change(request, upstream, "Synced models.")
            self.message_user(request, _summed(synced), messages.SUCCESS)
        return redirect(f"{reverse('admin:keys_upstreammodel_changelist')}?upstream__id__exact={upstream.pk}")


def _told(added: Added | None) -> list[str]:
    """Say what became of the pasted lines, without any of their text."""
    if added is None:
        return []
    lines = [f"{credential}: added" for credential in added.credentials]
    if added.duplicates:
        lines.append(f"{added.duplicates} known already: left out")
    return lines + [f"Line {number}: {reason}" for number, reason in added.refused]


def _summed(synced: Synced) -> str:
    parts = [f"{len(synced.added)} added", f"{len(synced.changed)} completed"]
    if synced.unlisted:
        parts.append(f"no longer listed: {', '.join(synced.unlisted[:10])}")
    return "Models: " + ", ".join(parts) + "."


@admin.register(UpstreamModel)
class UpstreamModelAdmin(WarnsOfOthers, SearchInTime, ModelAdmin):  # type: ignore[misc]
    list_display = [
        "name",
        "upstream",
        numbers("context_window", "context window"),
        numbers("max_output_tokens", "max output tokens"),
        "tools",
        "vision",
        "pdf",
        "reasoning",
    ]
    list_filter = [("upstream", admin.RelatedOnlyFieldListFilter), "tools", "vision", "pdf", "reasoning", "compaction"]
    list_select_related = ["upstream"]
    search_fields = ["name", "upstream__name"]
    search_help_text = "A model, or its upstream"
    empty_words = "Models need not be listed to be served. What is known of one bounds what is asked of it: Sync models on its upstream's page."
    readonly_fields = ["repairs"]
    fieldsets = [
        (
            None,
            {
                "fields": [
                    "upstream",
                    "name",
                    "context_window",
                    "max_output_tokens",
                    "tools",
                    "vision",
                    "pdf",
                    "reasoning",
                ]
            },
        ),
        ("Long conversations", {"fields": ["compaction", "compact_above", "compact_to", "summary_alias"]}),
        ("Answers that it cuts off", {"fields": ["continue_rounds"]}),
        ("Calls found in its text", {"fields": ["repairs"]}),
    ]

    def get_fieldsets(self, request: HttpRequest, obj: UpstreamModel | None = None) -> Any:
        is_emulated = obj is not None and obj.tools == Tools.EMULATED
        return [part for part in self.fieldsets if is_emulated or part[1]["fields"] != ["repairs"]]

    @admin.display(description="repairs")
    def repairs(self, model: UpstreamModel) -> str:
        counted = repairs_of(model.upstream_id, model.name)
        if counted is None or not counted.answers:
            return "No answer yet to a request with tools."
        lines = format_html_join("", "<li>{}: {}</li>", ((count, kind) for kind, count in counted.by_kind.items()))
        words = "Of the last {} answers to requests with tools, {} needed a repair.<ul>{}</ul>"
        return format_html(words, counted.answers, counted.repaired, lines)
