"""The admin's first page: today in numbers, and the state of the credentials."""

from typing import Any

from django.db.models import Count
from django.http import HttpRequest

from keys.models import Credential, CredentialState
from usage.reports import today_summary


def show(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add what the page shows to its context."""
    today = today_summary()
    context["today"] = [
        {"label": "Requests", "value": today["requests"]},
        {"label": "Input tokens", "value": today["input_tokens"]},
        {"label": "Cached input tokens", "value": today["cache_read_tokens"]},
        {"label": "Output tokens", "value": today["output_tokens"]},
        {"label": "Errors", "value": today["errors"]},
    ]
    states = CredentialState.objects.filter(model_name="").values_list("state").annotate(Count("pk")).order_by("state")
    resting = {state: count for state, count in states if state != "ready"}
    enabled = Credential.objects.filter(enabled=True).count()
    context["credentials"] = {"ready": max(0, enabled - sum(resting.values())), **resting}
    return context
