import json

import pytest

from keys.decisions import OBSTACLES, REASONS, TERMS, explain, render_decision
from keys.models import Credential, Upstream
from tests.keys.pools import answer, credential, credentials, pool, route


def test_a_decision_is_told_in_words(upstream: Upstream) -> None:
    one = Credential.objects.create(upstream=upstream, label="first", pk=1)
    Credential.objects.create(upstream=upstream, label="second", pk=2)
    acme = pool(credential(1), credential(2, enabled=False), credential(3))
    acme.hold()
    decision = json.loads(json.dumps(acme.hold(session_id="s").attempt.decision))

    told = explain(decision)

    assert told.chosen == "credential 3, since deleted"
    assert told.reason == "Its load was the lowest."
    assert told.closest == [("credential 3, since deleted", 0.0), (str(one), 1.02)]
    assert told.passed_over == [("disabled", 1, "second")]
    assert told.pool == 3


def test_the_page_shows_it_and_escapes(upstream: Upstream) -> None:
    Credential.objects.create(upstream=upstream, label="<img onerror>", pk=1)

    shown = render_decision(pool(credential(1)).hold().attempt.decision)

    assert "&lt;img onerror&gt;" in shown
    assert "nothing: it was idle" in shown
    assert render_decision(None).strip() == "No decision is kept for this record."


def test_a_second_attempt_names_who_was_asked_before(upstream: Upstream) -> None:
    acme = pool(*credentials(3))
    asked = Credential.objects.create(upstream=upstream, label="asked before", pk=1)
    attempts = acme.dispatcher.attempts(route())
    first = next(attempts)
    acme.dispatcher.claim(first).release(answer(500))

    second = attempts.send(answer(500))

    assert explain(second.decision).tried == [str(asked)]
    assert "Asked before it: asked before" in render_decision(second.decision)
    attempts.close()


def test_what_a_score_is_made_of_adds_up_on_the_page(upstream: Upstream) -> None:
    acme = pool(credential(1, weight=2))
    acme.hold()

    told = explain(acme.hold().attempt.decision)

    assert told.score == pytest.approx(told.closest[0][1])
    assert "together" in render_decision(acme.hold().attempt.decision)


def test_a_decision_about_three_hundred_is_small() -> None:
    acme = pool(*(credential(n, enabled=n % 2 == 0) for n in range(1, 301)))

    decision = acme.hold(session_id="s").attempt.decision

    assert decision["passed_over"]["disabled"]["count"] == 150
    assert len(json.dumps(decision)) < 500


def test_every_word_of_a_decision_is_known() -> None:
    acme = pool(*credentials(2))
    decision = acme.hold(session_id="s").attempt.decision

    assert decision["why"] in REASONS
    assert set(decision["terms"]) <= set(TERMS)
    assert {"full", "disabled", "draining", "cooling", "ejected", "quarantined", "on trial"} <= set(OBSTACLES)
