"""Forms of the admin for budgets and prices: people write USD, the tables hold whole numbers."""

from decimal import Decimal
from typing import Any

from django import forms
from django.contrib.auth.models import User
from django.contrib.postgres.forms import SimpleArrayField
from django.core.exceptions import ValidationError
from django.utils import timezone
from unfold.widgets import (
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminEmailInputWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminSplitDateTimeWidget,
    UnfoldAdminTextInputWidget,
)

from keys.egress import RefusedURL, check_base_url
from keys.models import ClientToken, Upstream
from keys.roles import teams
from usage.models import Budget, Price
from usage.prices import PRICE_MAX, PRICED, is_half_long

NANO = 10**9
MICRO = 10**6
LIMIT_MAX = 9 * 10**18
#: What counts for a kind without a price of its own.
OTHERWISE = {
    "cache_read": "Empty: as input.",
    "cache_write": "Empty: as input.",
    "cache_write_1h": "Kept for an hour. Empty: as cache write.",
    "thinking": "Empty: as output.",
    "long_output": "Empty: as output.",
    **dict.fromkeys(
        ("long_cache_read", "long_cache_write", "long_cache_write_1h"), "Empty: as much more as input costs."
    ),
}
#: What the form of a budget writes; the rest of its row is the ledger's.
EDITABLE = (
    "name", "subject", "subject_id", "aliases", "period", "unit", "enabled", "limit",
    "warn_percents", "warn_emails", "warn_webhook",
)  # fmt: skip


class BudgetForm(forms.ModelForm):  # type: ignore[type-arg]  # generic in the stubs only
    """A budget of exactly one client token, user or team."""

    user = forms.ModelChoiceField(User.objects.order_by("username"), required=False, widget=UnfoldAdminSelectWidget)
    team = forms.ModelChoiceField(teams(), required=False, widget=UnfoldAdminSelectWidget)
    token = forms.ModelChoiceField(
        ClientToken.objects.select_related("user").order_by("user__username", "name"),
        required=False,
        label="Client token",
        widget=UnfoldAdminSelectWidget,
    )
    aliases = SimpleArrayField(
        forms.CharField(max_length=200),
        required=False,
        label="Model aliases",
        help_text="That it is for: names or patterns such as claude-opus-*, with commas between. Empty means all.",
        widget=UnfoldAdminTextInputWidget,
    )
    amount = forms.DecimalField(
        min_value=0,
        decimal_places=9,
        max_digits=19,
        help_text="In the unit below; USD may have digits after the point. At 0 every request is refused.",
        widget=UnfoldAdminDecimalFieldWidget,
    )
    warn_percents = SimpleArrayField(
        forms.IntegerField(min_value=1, max_value=100),
        required=False,
        label="Warn at (%)",
        help_text="Percentages of the amount with commas between, such as 50, 80. Each warns once a period.",
        widget=UnfoldAdminTextInputWidget,
    )
    warn_emails = SimpleArrayField(
        forms.EmailField(),
        required=False,
        label="Mail warnings to",
        help_text="Addresses with commas between. Mail goes out by BRIDGE_SMTP_URL.",
        widget=UnfoldAdminEmailInputWidget(attrs={"type": "text"}),
    )

    class Meta:
        model = Budget
        fields = ("name", "aliases", "period", "unit", "enabled", "warn_percents", "warn_emails", "warn_webhook")
        labels = {"warn_webhook": "Call for warnings"}
        help_texts = {
            "name": "Whoever is refused reads it in the error.",
            "enabled": "Off, it refuses nothing; what is spent is counted all the same.",
            "period": "Periods begin in UTC: weeks on Monday, months on their first day.",
            "warn_webhook": "An https address that is sent each warning as JSON.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        #: Whose it is and its unit, which stay; None for a new one.
        self._counted_as: tuple[str, int, str] | None = None
        if self.instance.pk:
            self._counted_as = (self.instance.subject, self.instance.subject_id, self.instance.unit)
            self.initial[self.instance.subject] = self.instance.subject_id
            scale = NANO if self.instance.unit == Budget.Unit.USD else 1
            self.initial["amount"] = Decimal(self.instance.limit) / scale

    def clean_warn_webhook(self) -> str:
        url: str = self.cleaned_data["warn_webhook"]
        try:
            # Where it leads is checked again at each call; here only its form.
            return url and check_base_url(url, ["0.0.0.0/0", "::/0"])
        except RefusedURL as exc:
            raise ValidationError(str(exc)) from exc

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        chosen = [(subject, cleaned[subject]) for subject in Budget.Subject.values if cleaned.get(subject)]
        if len(chosen) != 1:
            msg = "Choose one: a user, a team or a client token."
            raise ValidationError(msg)
        (subject, owner), amount = chosen[0], cleaned.get("amount")
        whose = (subject, owner.pk, cleaned.get("unit"))
        if self._counted_as is not None and whose != self._counted_as:
            msg = "What is spent was counted for another owner or in another unit: add a budget of its own instead."
            raise ValidationError(msg)
        self.instance.subject, self.instance.subject_id = subject, owner.pk
        if amount is not None:
            limit = amount * (NANO if cleaned.get("unit") == Budget.Unit.USD else 1)
            if limit != int(limit) or limit > LIMIT_MAX:
                raise ValidationError({"amount": "Tokens are whole, and this is too much or too exact."})
            self.instance.limit = int(limit)
        return cleaned


class PriceForm(forms.ModelForm):  # type: ignore[type-arg]  # generic in the stubs only
    """A price in USD per million tokens."""

    upstream = forms.ModelChoiceField(
        Upstream.objects.order_by("name"),
        required=False,
        help_text="Empty: the model at any upstream.",
        widget=UnfoldAdminSelectWidget,
    )

    valid_from = forms.SplitDateTimeField(
        initial=timezone.now,
        help_text="In UTC. Requests before it keep their price.",
        widget=UnfoldAdminSplitDateTimeWidget,
    )

    long_above = forms.IntegerField(
        min_value=1,
        required=False,
        label="Longer than",
        help_text="Tokens of input, cached ones included; all of a longer request has the prices below. Empty: never.",
        widget=UnfoldAdminIntegerFieldWidget,
    )

    class Meta:
        model = Price
        fields = ("upstream_model", "valid_from", "long_above")
        widgets = {"upstream_model": UnfoldAdminTextInputWidget}
        help_texts = {"upstream_model": "The name that is sent to the upstream, not the alias that clients use."}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for part, name in zip(self.fields["valid_from"].widget.widgets, ("date", "time"), strict=True):
            part.attrs["aria-label"] = f"Valid from, {name}"
        for kind in PRICED:
            self.fields[kind] = forms.DecimalField(
                min_value=0,
                max_value=PRICE_MAX,
                decimal_places=6,
                required=kind in ("input", "output"),
                label=kind.removeprefix("long_").replace("_1h", " for 1 h").replace("_", " ").capitalize(),
                help_text=OTHERWISE.get(kind, ""),
                widget=UnfoldAdminDecimalFieldWidget(),
            )

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        upstream = cleaned.get("upstream")
        self.instance.upstream_id = upstream.pk if upstream else None
        self.instance.origin = "admin"
        for kind in PRICED:
            price = cleaned.get(kind)
            setattr(self.instance, f"{kind}_price", None if price is None else int(price * MICRO))
        if is_half_long(cleaned):
            msg = "Prices of long requests need how long they are, and a price for their input."
            raise ValidationError(msg)
        return cleaned
