from collections import deque
from datetime import datetime, timedelta
from time import monotonic
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.timesince import timesince, timeuntil
from django.views.decorators.debug import sensitive_post_parameters
from unfold.admin import ModelAdmin
from unfold.decorators import action, display
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminTextInputWidget

from keys.admin.leaks import LeakHints
from keys.admin.pages import COLOURS, object_page, render_states
from keys.credentials import RefusedSecret, clean_secret, set_secret
from keys.editing import WarnsOfOthers
from keys.leaks import Kind
from keys.models import Credential
from keys.outside import outside
from keys.ring import key_ring
from keys.rows import credential_of, upstream_of
from keys.searching import SearchInTime
from keys.standing import Standing, Use, standing, uses

#: A member of staff may test so often in a minute, in one process.
TESTS_A_MINUTE = 10
JUST_NOW = timedelta(minutes=1)

EDITABLE = ["label", "enabled", "draining", "priority", "weight", "rpm", "tpm", "concurrency"]


class CredentialForm(forms.ModelForm):  # type: ignore[type-arg]
    secret = forms.CharField(
        required=False,
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "off"}),
        help_text="Never shown again. Left empty, the stored one stays.",
    )

    class Meta:
        model = Credential
        fields = ["upstream", *EDITABLE]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance._state.adding:
            self.fields["secret"].required = True
            self.fields["secret"].help_text = "Never shown again."

    def clean_secret(self) -> str:
        typed: str = self.cleaned_data["secret"]
        if not typed:
            return ""
        try:
            return clean_secret(typed)
        except RefusedSecret as exc:
            raise ValidationError(str(exc)) from exc


class TestForm(forms.Form):
    model = forms.CharField(label="Upstream model", max_length=200, widget=UnfoldAdminTextInputWidget)


class StateFilter(admin.SimpleListFilter):
    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(state, state) for state in COLOURS] + [("disabled", "disabled")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Credential]) -> QuerySet[Credential]:
        if not (wanted := self.value()):
            return queryset
        ring = key_ring()
        rows = queryset.prefetch_related("states")
        return queryset.filter(pk__in=[row.pk for row in rows if standing(row, row.states.all(), ring).state == wanted])


@admin.register(Credential)
class CredentialAdmin(LeakHints, WarnsOfOthers, SearchInTime, ModelAdmin):  # type: ignore[misc]
    form = CredentialForm
    leak_kind = Kind.CREDENTIAL
    remedy = "Make a new secret at the provider, store it here, and withdraw the old one there."
    list_display = [
        "label",
        "state",
        "cause",
        "rests_for",
        "upstream",
        "ends_in",
        "use",
        "last_success",
        "last_failure",
    ]
    list_filter = [StateFilter, ("upstream", admin.RelatedOnlyFieldListFilter), "enabled", "draining"]
    list_select_related = ["upstream"]
    search_fields = ["label", "upstream__name", "last_four"]
    search_help_text = "A label, an upstream, or the last four characters of a secret"
    empty_words = "A credential is a provider's key. Many at once come in by Paste keys, on their upstream's page."
    readonly_fields = ["ends_in", "standing_now", "use", "last_success", "last_failure", "states"]
    actions = ["enable", "disable", "drain", "restore"]
    actions_detail = ["test", "dismiss_leak"]
    fieldsets = [
        (None, {"fields": ["upstream", "label", "secret", "ends_in", "enabled", "draining"]}),
        ("Now", {"fields": ["standing_now", "use", "last_success", "last_failure", "states"]}),
        ("Limits and order", {"fields": ["priority", "weight", "rpm", "tpm", "concurrency"]}),
    ]

    @method_decorator(sensitive_post_parameters("secret"))
    def changeform_view(self, *args: Any, **kwargs: Any) -> HttpResponse:
        response: HttpResponse = super().changeform_view(*args, **kwargs)
        return response

    def get_fieldsets(self, request: HttpRequest, obj: Credential | None = None) -> Any:
        if obj is not None:
            return self.fieldsets
        # What isn't stored yet has no past.
        shown = [
            (title, [name for name in part["fields"] if name not in self.readonly_fields])
            for title, part in self.fieldsets
        ]
        return [(title, {"fields": fields}) for title, fields in shown if fields]

    def get_readonly_fields(self, request: HttpRequest, obj: Credential | None = None) -> list[str]:
        # A secret belongs to the upstream it was typed in for.
        return [*self.readonly_fields, "upstream"] if obj else self.readonly_fields

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        queryset: QuerySet[Any] = super().get_queryset(request).prefetch_related("states")
        return queryset

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        changelist: ChangeList = super().get_changelist_instance(request)
        known = uses()
        for credential in changelist.result_list:
            credential.use = known.get(credential.pk, Use())
        return changelist

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Credential | None:
        credential: Credential | None = super().get_object(request, object_id, from_field)
        if credential is not None:
            credential.use = uses().get(credential.pk, Use())  # type: ignore[attr-defined]
        return credential

    def save_model(self, request: HttpRequest, obj: Credential, form: CredentialForm, change: bool) -> None:
        # Only what the form changed, so that a secret stored meanwhile is not overwritten.
        obj.save(update_fields=EDITABLE if change else None)
        if secret := form.cleaned_data["secret"]:
            set_secret(obj, secret)

    @admin.display(description="ends in")
    def ends_in(self, credential: Credential) -> str:
        return f"…{credential.last_four}" if credential.last_four else "-"

    @display(description="state", label=COLOURS)  # type: ignore[untyped-decorator]
    def state(self, credential: Credential) -> str:
        return _standing(credential).state

    @admin.display(description="state")
    def standing_now(self, credential: Credential) -> str:
        now, rest = _standing(credential), self.rests_for(credential)
        words = [now.state, *([now.cause] if now.cause else [])]
        return ": ".join(words) + (f", for {rest}" if rest != "-" else "")

    @admin.display(description="cause")
    def cause(self, credential: Credential) -> str:
        return _standing(credential).cause or "-"

    @admin.display(description="rests for")
    def rests_for(self, credential: Credential) -> str:
        now = _standing(credential)
        return timeuntil(now.until) if now.until and now.state not in ("ready", "on trial") else "-"

    @admin.display(description="use now")
    def use(self, credential: Credential) -> str:
        use = credential.use  # type: ignore[attr-defined]
        parts = [
            _of("open", use.in_flight, credential.concurrency),
            _of("requests/min", use.sends, credential.rpm),
            _of("tokens/min", use.tokens, credential.tpm),
        ]
        return ", ".join(filter(None, parts)) or "-"

    @admin.display(description="last success")
    def last_success(self, credential: Credential) -> str:
        return _ago(_standing(credential).last_success_at)

    @admin.display(description="last failure")
    def last_failure(self, credential: Credential) -> str:
        return _ago(_standing(credential).last_failure_at)

    @admin.display(description="states")
    def states(self, credential: Credential) -> str:
        return render_states(credential.states.all())

    @admin.action(description="Enable", permissions=["change"])
    def enable(self, request: HttpRequest, queryset: QuerySet[Credential]) -> None:
        self._switch(request, queryset, "Enabled.", enabled=True, draining=False)

    @admin.action(description="Disable", permissions=["change"])
    def disable(self, request: HttpRequest, queryset: QuerySet[Credential]) -> None:
        self._switch(request, queryset, "Disabled.", enabled=False)

    @admin.action(description="Drain: no new sessions", permissions=["change"])
    def drain(self, request: HttpRequest, queryset: QuerySet[Credential]) -> None:
        self._switch(request, queryset, "Draining.", draining=True)

    @admin.action(description="Forget states: try again at once", permissions=["change"])
    def restore(self, request: HttpRequest, queryset: QuerySet[Credential]) -> None:
        for credential in queryset:
            credential.states.all().delete()
            self.log_change(request, credential, "States forgotten.")
        self.message_user(request, f"{queryset.count()} restored.", messages.SUCCESS)

    def has_test_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return request.user.has_perm("keys.change_credential")

    @action(description="Test", url_path="test", icon="network_check", permissions=["test"])  # type: ignore[untyped-decorator]
    def test(self, request: HttpRequest, object_id: str) -> HttpResponse:
        credential = get_object_or_404(Credential.objects.select_related("upstream"), pk=object_id)
        form = TestForm(request.POST or None, initial={"model": _usual_model(credential)})
        lines = []
        if form.is_valid():
            lines = self._try(request, credential, form.cleaned_data["model"])
        title = f"Test {credential}"
        intro = f"Bridge asks {credential.upstream} for a few tokens with this credential, and no other."
        return object_page(
            self, request, credential, "keys/form_page.html", title, form=form, intro=intro, verb="Test", lines=lines
        )

    def _try(self, request: HttpRequest, credential: Credential, model: str) -> list[str]:
        if not may_test(request.user.pk):
            return ["That was a test too many: wait a minute."]
        entry = credential_of(credential)
        if entry.defect:
            return [f"It can't be used: {entry.defect.replace('_', ' ')}."]
        tested = outside().try_credential(upstream_of(credential.upstream), entry, model)
        self.log_change(request, credential, f"Tested with {model}: {'fine' if tested.is_ok else 'failed'}.")
        status = f"status {tested.status}" if tested.status else "no answer"
        verdict = "It works" if tested.is_ok else "It failed"
        return [f"{verdict}: {status} after {tested.duration_ms} ms.", *([tested.words] if tested.words else [])]

    def _switch(self, request: HttpRequest, queryset: QuerySet[Credential], note: str, **values: bool) -> None:
        pks = list(queryset.values_list("pk", flat=True))
        Credential.objects.filter(pk__in=pks).update(**values)
        for credential in Credential.objects.filter(pk__in=pks):
            self.log_change(request, credential, note)
        self.message_user(request, f"{len(pks)} changed.", messages.SUCCESS)


_tests: dict[int | None, deque[float]] = {}


def may_test(user_id: int | None) -> bool:
    """Count a test; False when the member of staff made too many just now."""
    recent = _tests.setdefault(user_id, deque(maxlen=TESTS_A_MINUTE))
    now = monotonic()
    if len(recent) == TESTS_A_MINUTE and now - recent[0] < 60:
        return False
    recent.append(now)
    return True


def _of(unit: str, used: int, limit: int | None) -> str:
    """Say how much of a limit is used; "" when there is neither use nor a limit."""
    if limit is None:
        return f"{used:,} {unit.replace('s/', '/') if used == 1 else unit}" if used > 0 else ""
    return f"{max(used, 0):,} of {limit:,} {unit}"


def _ago(moment: datetime | None) -> str:
    if moment is None:
        return "-"
    return "just now" if timezone.now() - moment < JUST_NOW else f"{timesince(moment, depth=1)} ago"


def _usual_model(credential: Credential) -> str:
    """Guess a model that the credential serves."""
    target = credential.upstream.targets.exclude(upstream_model="").first()
    model = credential.upstream.models.first()
    return target.upstream_model if target else model.name if model else ""


def _standing(credential: Credential) -> Standing:
    """Compute it once for a row, though several columns show it."""
    known: Standing | None = getattr(credential, "_standing", None)
    if known is None:
        known = standing(credential, credential.states.all(), key_ring())
        credential._standing = known  # type: ignore[attr-defined]
    return known
