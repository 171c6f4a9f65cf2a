"""What an operator says about long conversations, and what can't be said."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError
from django.db.transaction import atomic
from django.urls import reverse
from pydantic import ValidationError

from keys.models import Upstream, UpstreamModel
from keys.setup_file import ModelPart


def form_of(upstream: Upstream, **changes: Any) -> dict[str, Any]:
    fields = {"upstream": upstream.pk, "name": "m", "context_window": "", "max_output_tokens": "", "tools": "native"}
    more = {"vision": "unknown", "pdf": "unknown", "reasoning": "unknown", "summary_alias": ""}
    return fields | more | {"compaction": "off", "compact_above": 80, "compact_to": 40, "continue_rounds": 0} | changes


def test_long_conversations_are_left_alone_unless_somebody_says_so(upstream: Upstream) -> None:
    model = UpstreamModel.objects.create(upstream=upstream, name="m")

    assert (model.compaction, model.compact_above, model.compact_to, model.summary_alias) == ("off", 80, 40, "")
    assert (ModelPart(name="m").compaction, ModelPart(name="m").summary_alias) == ("off", "")


def test_the_form_switches_it_on(client_of, alice: User, upstream: Upstream) -> None:
    form = form_of(upstream, context_window=128_000, compaction="summary", summary_alias="small")
    answer = client_of(alice).post(reverse("admin:keys_upstreammodel_add"), form)

    assert answer.status_code == 302, answer.context["errors"]
    model = UpstreamModel.objects.get()
    assert (model.compaction, model.summary_alias) == ("summary", "small")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"compaction": "trim"}, "only where the context window is known"),
        ({"compact_above": 50, "compact_to": 50}, "Compact to less than what is compacted"),
        ({"compact_above": 101}, "less than or equal to 100"),
        ({"compact_to": 5}, "greater than or equal to 10"),
    ],
)
def test_the_form_refuses_what_makes_no_sense_and_says_why(
    client_of, alice: User, upstream: Upstream, changes: dict[str, Any], words: str
) -> None:
    answer = client_of(alice).post(reverse("admin:keys_upstreammodel_add"), form_of(upstream, **changes))

    assert words in answer.content.decode()
    assert not UpstreamModel.objects.exists()


@pytest.mark.parametrize(
    "facts",
    [
        {"compaction": "trim"},
        {"compaction": "sometimes", "context_window": 1000},
        {"compact_above": 40},
        {"compact_above": 101},
        {"compact_to": 9},
    ],
)
def test_the_database_refuses_it_too(upstream: Upstream, facts: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError), atomic():
        UpstreamModel.objects.create(upstream=upstream, name="m", **facts)


@pytest.mark.parametrize("facts", [{"compaction": "trim"}, {"compact_above": 40}, {"compact_to": 9}])
def test_a_setup_file_is_refused_before_the_database_is_asked(facts: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ModelPart(name="m", **facts)
