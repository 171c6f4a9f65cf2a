from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from keys.models import ClientToken, Route, TokenRefusal
from keys.tokens import issue_token, revoke_token
from members.fixes import Case, advise
from tests.members.ledger import add_record
from tests.members.test_pages import RIGHT_TO_LEFT, text_of

BASE = "http://bridge.example"


def turn_away(token: ClientToken, *, age: timedelta = timedelta(), **changes: Any) -> TokenRefusal:
    facts: dict[str, Any] = {
        "at": timezone.now() - age,
        "request_id": "req_1",
        "status": 403,
        "error_type": "permission_error",
        "message": "this token may not use the model claude-opus",
        "method": "POST",
        "path": "/v1/messages",
        "client_name": "claude-cli",
        "client_version": "2.1.332",
    }
    return TokenRefusal.objects.create(token=token, **facts | changes)


def try_page(token: ClientToken) -> str:
    return f"/tokens/{token.pk}/try/"


def test_a_refusal_is_shown_with_what_helps_and_the_page_waits_on(client_of, bob: User) -> None:
    token, _ = issue_token(bob, "desk", scopes=["claude-haiku-*"])
    turn_away(token)

    answer = client_of(bob).get(try_page(token))

    page = text_of(answer)
    assert "turned away: This token may not use the model that the client asked for." in page
    assert "It may use: claude-haiku-*." in page
    assert "403 permission_error: this token may not use the model claude-opus" in page
    assert "claude-cli 2.1.332" in page
    assert "data-done" not in answer.content.decode()


def test_an_old_refusal_is_none(client_of, bob: User) -> None:
    token, _ = issue_token(bob)
    turn_away(token, age=timedelta(hours=1))

    assert client_of(bob).get(try_page(token)).context["refused"] is None


def test_a_request_that_has_a_record_was_not_turned_away(client_of, bob: User) -> None:
    token, _ = issue_token(bob)
    record = add_record(bob, token, state="upstream_error")
    turn_away(token, request_id=record.request_id)

    context = client_of(bob).get(try_page(token)).context

    assert context["seen"].pk == record.pk
    assert context["refused"] is None


def test_an_answered_request_and_a_refused_one_are_both_shown(client_of, bob: User) -> None:
    token, _ = issue_token(bob)
    add_record(bob, token)
    turn_away(token)

    page = text_of(client_of(bob).get(try_page(token)))

    assert "It works" in page
    assert "Another one was turned away" in page
    TokenRefusal.objects.update(at=timezone.now() - timedelta(seconds=60))
    assert "Before it, one was turned away" in text_of(client_of(bob).get(try_page(token)))


def test_a_request_with_another_own_token_is_pointed_out(client_of, bob: User, rita: User) -> None:
    token, _ = issue_token(bob, "new one")
    old, _ = issue_token(bob, "old one")
    foreign, _ = issue_token(rita, "of rita")
    turn_away(foreign)
    browser = client_of(bob)
    assert browser.get(try_page(token)).context["elsewhere"] is None

    turn_away(old, status=401, age=timedelta(seconds=30))
    assert browser.get(try_page(token)).context["elsewhere"] == old

    third, _ = issue_token(bob, "third one")
    add_record(bob, third)
    page = text_of(browser.get(try_page(token)))
    assert "A request came in with another token of yours: third one" in page


@pytest.mark.parametrize("end", ["revoked", "expired"])
def test_a_token_that_ended_says_so(client_of, bob: User, end: str) -> None:
    token, _ = issue_token(bob)
    if end == "revoked":
        revoke_token(token.pk)
    else:
        ClientToken.objects.filter(pk=token.pk).update(expires_at=timezone.now() - timedelta(hours=1))
    browser = client_of(bob)
    assert f"{end}: requests with it are turned away" in text_of(browser.get(try_page(token)))

    turn_away(token, status=401, error_type="authentication_error", message="the token was revoked or has expired")

    page = text_of(browser.get(try_page(token)))
    assert f"This token {end}" in page or f"This token was {end}" in page
    assert "Issue a new one" in page


def test_charlie_sees_no_refusal_of_others(client_of, bob: User, rita: User) -> None:
    token, _ = issue_token(bob)
    turn_away(token)

    assert client_of(rita).get(try_page(token)).status_code == 404


def test_hostile_words_are_text(client_of, bob: User) -> None:
    token, _ = issue_token(bob)
    hostile = "<img src=x onerror=alert(1)>" + RIGHT_TO_LEFT
    turn_away(token, message=hostile, path="/v1/" + hostile, client_name=hostile, status=404)

    assert "<img src=x" not in client_of(bob).get(try_page(token)).content.decode()


@pytest.mark.parametrize(
    ("facts", "wrong", "fix"),
    [
        ({"status": 401}, "expired on 2026-03-02 at 09:05 UTC", "Issue a new one"),
        ({"status": 400, "message": "x-api-key and … two different tokens of ours"}, "two different tokens", "unset the other"),
        ({"status": 400, "message": "prompt is too long: 9 tokens > 8 maximum"}, "longer than the model", "Nothing is wrong"),
        ({"status": 400, "message": "messages.3.content: missing"}, "can't be understood", "mend it there"),
        ({"status": 400, "message": "compressed request bodies are not supported"}, "compressed", "Turn compression"),
        ({"status": 402, "message": "the budget 'x' is spent"}, "A budget", "Wait until it starts anew"),
        (
            {"status": 402, "message": "the budget 'x' has $0.20 left, and this call may need up to $2.40: a smaller max_tokens needs less"},
            "less left than the request may need",
            "a smaller max_tokens",
        ),
        ({"status": 402, "message": "running calls hold what is left of the budget 'x'"}, "hold what is left", "fewer at once"),
        ({"status": 403}, "may not use the model", "It may use: claude-haiku-*"),
        ({"status": 403, "message": "not from this network"}, "not be used like that", "what the message asks for"),
        ({"status": 404, "message": "model: x"}, "No route takes", "Names that are routed: house-model."),
        (
            {"status": 404, "message": "there is nothing at /v1/v1/messages", "path": "/v1/v1/messages"},
            "POST /v1/v1/messages",
            f"Leave /v1 out of the client's base URL: it is {BASE}.",
        ),
        ({"status": 404, "message": "there is nothing at /v1/x", "path": "/v1/x"}, "/v1/x", f"base URL to {BASE}"),
        ({"status": 405, "method": "GET", "path": "/v1/messages"}, "GET /v1/messages", f"base URL to {BASE}"),
        ({"status": 408}, "did not arrive", "connection"),
        ({"status": 409}, "Idempotency-Key", "of its own"),
        ({"status": 413}, "too large", "BRIDGE_MAX_BODY_BYTES"),
        ({"status": 429, "message": "this token's limit of 5 …"}, "it allows 5 requests a minute", "Wait a minute"),
        ({"status": 429, "message": "every upstream credential is rate limited"}, "set-up is right", "Try again"),
        ({"status": 503}, "set-up is right", "Try again"),
        ({"status": 529}, "set-up is right", "Try again"),
        ({"status": 500}, "Bridge failed", "the request's id"),
    ],
)  # fmt: skip
def test_each_refusal_has_its_fix(bob: User, facts: dict[str, Any], wrong: str, fix: str) -> None:
    Route.objects.create(alias="house-model")
    token, _ = issue_token(bob, scopes=["claude-haiku-*"], rpm=5)
    token.expires_at = datetime(2026, 3, 2, 9, 5, tzinfo=UTC)

    advice = advise(Case(refusal=turn_away(token, **facts), token=token, base_url=BASE))

    assert wrong in advice.wrong
    assert fix in advice.fix
