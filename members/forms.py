from datetime import timedelta
from typing import Any

from django import forms

from keys.tokens import LIFE_DEFAULT
from members.tokens import Limits

GRACES = {"0": "at once", "1": "in an hour", "24": "in a day", "168": "in a week"}
LIVES = {"7": "7 days", "30": "30 days", str(LIFE_DEFAULT.days): f"{LIFE_DEFAULT.days} days", "365": "a year"}


class CodeForm(forms.Form):
    code = forms.CharField(
        max_length=16,
        widget=forms.TextInput(attrs={"autocomplete": "one-time-code", "inputmode": "text", "autofocus": True}),
    )

    def clean_code(self) -> str:
        return "".join(str(self.cleaned_data["code"]).split())


class ProofForm(forms.Form):
    password = forms.CharField(
        strip=False,
        max_length=4096,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password", "autofocus": True}),
    )


class TokenForm(forms.Form):
    """A new client token; what it may do can't exceed what the member was given."""

    name = forms.CharField(max_length=100, initial="default", help_text="To tell your tokens apart: laptop, ci, …")
    days = forms.ChoiceField(label="Lives for", choices=list(LIVES.items()), initial=str(LIFE_DEFAULT.days))

    def __init__(self, *args: Any, limits: list[Limits], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limits = limits
        if len(limits) > 1:
            choices = [(str(place), str(each)) for place, each in enumerate(limits)]
            self.fields["like"] = forms.ChoiceField(label="May use", choices=choices)

    @property
    def limits(self) -> Limits:
        return self._limits[int(self.cleaned_data.get("like") or 0)]

    @property
    def life(self) -> timedelta:
        return timedelta(days=int(self.cleaned_data["days"]))


class RotateForm(forms.Form):
    hours = forms.ChoiceField(label="The old one stops working", choices=list(GRACES.items()), initial="24")

    @property
    def grace(self) -> timedelta:
        return timedelta(hours=int(self.cleaned_data["hours"]))
