import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.urls import reverse
from django.utils import timezone

from keys.models import ClientToken, Route
from keys.roles import team_of
from keys.tokens import digest, issue_token, revoke_token
from tests.members.ledger import add_record
from usage.models import Budget, Price

TOKEN = re.compile(r"brg_[0-9A-Za-z]{39}")
RIGHT_TO_LEFT = "\u202egnp.exe"


def text_of(answer) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode()))


def test_the_page_shows_only_ones_own_usage(client_of, bob: User, rita: User) -> None:
    add_record(bob, session_id="session-of-bob", cost_nano=2_500_000_000)
    add_record(rita, session_id="session-of-rita", alias="secret-model", cost_nano=77_000_000_000)

    page = text_of(client_of(bob).get("/"))

    assert "$2.50" in page
    assert "session-of-bob" in page
    for foreign in ("rita", "secret-model", "$77"):
        assert foreign not in page


def test_a_span_is_chosen_by_the_address(client_of, bob: User) -> None:
    add_record(bob, age=timedelta(days=20), alias="old-model")
    browser = client_of(bob)

    assert "old-model" not in text_of(browser.get("/"))
    assert "old-model" in text_of(browser.get("/?days=30"))
    for nonsense in ("0", "-1", "99999999999", "x", "%00"):
        assert browser.get(f"/?days={nonsense}").status_code == 200


def test_budgets_show_what_is_left(client_of, bob: User, rita: User) -> None:
    Budget.objects.create(name="bob's own", subject="user", subject_id=bob.pk, limit=10 * 10**9, spent=4 * 10**9)
    Budget.objects.create(name="big", subject="user", subject_id=bob.pk, limit=10**9, aliases=["claude-opus-*", "o3"])
    Budget.objects.create(name="the builders'", subject="team", subject_id=team_of(bob), unit="tokens", limit=500)
    Budget.objects.create(name="rita's own", subject="user", subject_id=rita.pk, limit=1)
    Budget.objects.create(
        name="over", subject="user", subject_id=bob.pk, limit=7, spent=7, period="day", period_start="2026-01-01T00:00Z"
    )

    answer = client_of(bob).get("/")

    shown = {budget.name: (budget.left, budget.used_percent) for budget in answer.context["budgets"]}
    assert shown == {"bob's own": (6, 40), "the builders'": (500, 0), "over": (7e-9, 0), "big": (1, 0)}
    assert "yours, month, for claude-opus-*, o3" in text_of(answer)


def test_a_session_tells_its_story(client_of, bob: User, rita: User) -> None:
    for number in range(3):
        size = 1000 * (number + 1)
        add_record(bob, session_id="s 1/x", input_tokens=100, cache_read_tokens=size, age=timedelta(minutes=9 - number))
    add_record(bob, session_id="s 1/x", alias="claude-haiku-4-5", input_tokens=9)
    add_record(bob, session_id="dearer", cost_nano=10**9)
    url = reverse("members:session", args=["s 1/x"])

    answer = client_of(bob).get(url)

    assert [(part.name, len(part.requests)) for part in answer.context["parts"]] == [
        ("main agent", 3),
        ("single calls", 1),
    ]
    assert "the parts are guessed" in text_of(answer)
    story = answer.context["story"]
    assert (story.place, story.count, story.median_nano) == (2, 2, None)
    assert client_of(rita).get(url).status_code == 404


def test_a_session_tells_of_agents_and_of_the_cache(client_of, bob: User) -> None:
    price = Price.objects.create(
        upstream_model="m",
        input_price=10_000_000,
        cache_read_price=1_000_000,
        output_price=1,
        valid_from=timezone.now(),
    )
    shared = {"session_id": "s", "price_version": price.pk, "client_version": "2.1.332", "queued_ms": 3}
    shared |= {"source": "upstream", "cost_nano": 300_000_000}
    for age, read in ((9, 19_000), (8, 20_000), (7, 0)):
        add_record(bob, age=timedelta(minutes=age), input_tokens=21_000 - read, cache_read_tokens=read, **shared)
    add_record(bob, age=timedelta(minutes=6), agent_id="a1", agent_kind="Explore", **shared)
    for number in range(3):
        add_record(bob, session_id=f"usual {number}", cost_nano=100_000_000)

    answer = client_of(bob).get(reverse("members:session", args=["s"]))

    assert [part.name for part in answer.context["parts"]] == ["main agent", "sub-agent Explore"]
    page = text_of(answer)
    assert "The client itself said which agent each request came from" in page
    assert "It cost 12.0 times your median session ($0.1000) of the 30 days around it." in page
    assert "The cache was missed in 1 request, at" in page
    assert "21.0k tokens that had been sent before were read anew, which cost about $0.1890 more" in page


def test_a_token_is_shown_once_and_works(client_of, bob: User) -> None:
    browser = client_of(bob)

    answer = browser.post("/tokens/new/", {"name": "laptop", "days": "30"})

    row = ClientToken.objects.get()
    plain = TOKEN.findall(answer.content.decode())[0]
    assert (row.digest, row.user, row.name) == (digest(plain), bob, "laptop")
    assert "no-store" in answer["Cache-Control"]
    for page in ("/", "/tokens/new/", f"/tokens/{row.pk}/rotate/", f"/tokens/{row.pk}/try/"):
        assert plain[8:20] not in browser.get(page).content.decode()
    assert plain not in repr([session.get_decoded() for session in Session.objects.all()])


@pytest.mark.parametrize("data", [{}, {"name": "", "days": "30"}, {"name": "x", "days": "366"}, {"name": "a" * 101}])
def test_what_is_no_token_is_not_issued(client_of, bob: User, data: dict[str, str]) -> None:
    assert client_of(bob).post("/tokens/new/", data).status_code == 200
    assert not ClientToken.objects.exists()


def test_a_member_gets_around_no_limit_by_a_new_token(client_of, bob: User) -> None:
    row, _ = issue_token(bob, scopes=["claude-haiku-*"], networks=["10.0.0.0/8"], rpm=5)
    revoke_token(row.pk)

    client_of(bob).post("/tokens/new/", {"name": "mine", "days": "30", "like": "7", "scopes": "*", "rpm": "9"})

    fresh = ClientToken.objects.latest("pk")
    assert (fresh.name, fresh.scopes, fresh.rpm) == ("mine", ["claude-haiku-*"], 5)
    assert fresh.networks == ["10.0.0.0/8"]


def test_rotating_keeps_the_limits_and_ends_the_old_token(client_of, bob: User) -> None:
    old, _ = issue_token(bob, "ci", life=timedelta(days=30), scopes=["claude-*"], tpm=7)

    answer = client_of(bob).post(f"/tokens/{old.pk}/rotate/", {"hours": "1"})

    assert TOKEN.search(answer.content.decode())
    fresh = ClientToken.objects.latest("pk")
    old.refresh_from_db()
    assert (fresh.name, fresh.scopes, fresh.tpm) == ("ci", ["claude-*"], 7)
    assert fresh.expires_at - timezone.now() > timedelta(days=29)
    assert old.expires_at - timezone.now() <= timedelta(hours=1)


def test_rotating_never_lengthens_a_life(client_of, bob: User) -> None:
    old, _ = issue_token(bob, life=timedelta(minutes=5))
    client_of(bob).post(f"/tokens/{old.pk}/rotate/", {"hours": "168"})

    old.refresh_from_db()
    assert old.expires_at - timezone.now() <= timedelta(minutes=5)


def test_others_tokens_are_out_of_reach(client_of, bob: User, rita: User, root: User) -> None:
    row, _ = issue_token(rita)
    for user in (bob, root):
        for page in ("rotate", "revoke", "try"):
            assert client_of(user).get(f"/tokens/{row.pk}/{page}/").status_code == 404
            assert client_of(user).post(f"/tokens/{row.pk}/{page}/", {"hours": "0"}).status_code in (404, 405)

    row.refresh_from_db()
    assert row.revoked_at is None
    assert ClientToken.objects.count() == 1


def test_a_revoked_token_can_not_be_rotated(client_of, bob: User) -> None:
    row, _ = issue_token(bob)
    client_of(bob).post(f"/tokens/{row.pk}/revoke/")

    row.refresh_from_db()
    assert row.revoked_at is not None
    assert client_of(bob).post(f"/tokens/{row.pk}/rotate/", {"hours": "0"}).status_code == 404


def test_the_set_up_is_tested_by_its_first_request(client_of, bob: User) -> None:
    row, _ = issue_token(bob)
    other, _ = issue_token(bob, "other")
    add_record(bob, row, age=timedelta(hours=1), client_name="too-old")
    add_record(bob, other, client_name="another-token")
    browser = client_of(bob)
    page = browser.get(f"/tokens/{row.pk}/try/")
    assert "Waiting for a request" in text_of(page)

    record = add_record(bob, row, client_name="claude-cli", state="upstream_error", error_type="overloaded_error")
    seen = browser.get(f"/tokens/{row.pk}/try/?since={page.context['since']}", headers={"X-Part": "seen"})

    assert seen.context["seen"].pk == record.pk
    assert "<html" not in seen.content.decode()
    assert "claude-cli 2.1" in text_of(seen)
    assert "overloaded_error" in text_of(seen)
    for nonsense in ("", "x", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"):
        assert browser.get(f"/tokens/{row.pk}/try/?since={nonsense}").status_code == 200


def test_names_with_markup_break_nothing(client_of, bob: User) -> None:
    for name in ("<script>alert(1)</script>", RIGHT_TO_LEFT, "x" * 100, "'\"&"):
        issue_token(bob, name)
    add_record(bob, alias="<img src=x onerror=alert(1)>", session_id="<b>")

    page = client_of(bob).get("/").content.decode()

    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_the_set_up_lines_name_this_address_and_a_routed_model(client_of, bob: User) -> None:
    Route.objects.create(alias="claude-*")
    Route.objects.create(alias="house-model")

    page = client_of(bob).get("/", headers={"host": "localhost:8123"}).content.decode()

    assert "ANTHROPIC_BASE_URL=http://localhost:8123\n" in page
    assert "house-model" in page


def test_a_page_takes_few_queries_however_much_there_is(client_of, bob: User, django_assert_max_num_queries) -> None:
    for number in range(12):
        add_record(bob, issue_token(bob, f"token {number}")[0], session_id=f"s{number}", alias=f"m{number}")
    browser = client_of(bob)

    with django_assert_max_num_queries(25):
        browser.get("/?days=90")


def test_a_long_span_keeps_to_recent_sessions(client_of, bob: User) -> None:
    add_record(bob, session_id="old-session", age=timedelta(days=20))
    add_record(bob, session_id="new-session")

    page = text_of(client_of(bob).get("/?days=30"))

    assert "new-session" in page
    assert "old-session" not in page
    assert "(last 14 days)" in page
