from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.urls import reverse

from keys.models import ClientToken
from keys.roles import Role, give_role, team_of
from keys.tokens import issue_token, revoke_token
from members.figures import Figures, first_day, nothing, read_figures
from members.team import share_percent
from tests.members.conftest import make_user
from tests.members.ledger import add_record
from tests.members.test_pages import RIGHT_TO_LEFT, text_of
from usage.models import Budget

NANO = 10**9
QUERIES_MAX = 25


@pytest.fixture
def busy_team(bob: User, lea: User, rita: User) -> None:
    add_record(bob, alias="big-model", cost_nano=3 * NANO)
    add_record(lea, alias="small-model", cost_nano=1 * NANO, age=timedelta(days=3))
    add_record(lea, cost_nano=50 * NANO, age=timedelta(days=20))
    add_record(rita, alias="riggers-model", cost_nano=77 * NANO)


def test_a_lead_sees_each_member_day_and_model(client_of, busy_team: None, lea: User) -> None:
    answer = client_of(lea).get("/team/")

    people = [(person.name, person.figures.cost_usd) for person in answer.context["people"]]
    assert people == [("bob", 3), ("lea", 1)]
    assert [each.label for each in answer.context["by_model"]] == ["big-model", "small-model"]
    assert [day.cost_usd for day in answer.context["by_day"] if day.requests] == [1, 3]
    page = text_of(answer)
    for foreign in ("rita", "riggers-model", "$77"):
        assert foreign not in page
    assert "$54.00" in text_of(client_of(lea).get("/team/?days=30"))


def test_a_member_sees_the_own_share_and_no_others(client_of, busy_team: None, bob: User) -> None:
    Budget.objects.create(name="The builders'", subject="team", subject_id=team_of(bob), limit=10 * NANO, spent=NANO)
    lea = User.objects.get(username="lea")
    Budget.objects.create(name="lea alone", subject="user", subject_id=lea.pk, limit=10 * NANO)
    issue_token(lea, "laptop of lea")

    answer = client_of(bob).get("/team/")

    page = text_of(answer)
    assert answer.context["share"] == 75
    assert [budget.name for budget in answer.context["budgets"]] == ["The builders'"]
    assert "people" not in answer.context
    for hidden in ("small-model", "$1.00", "lea alone", "laptop of lea"):
        assert hidden not in page
    assert "is shown to who leads the team: lea" in page


def test_a_lead_sees_budgets_and_tokens_but_no_secret(client_of, bob: User, lea: User, rita: User) -> None:
    Budget.objects.create(name="Bob's own", subject="user", subject_id=bob.pk, limit=4 * NANO, spent=NANO)
    token, plain = issue_token(bob, "desk", life=timedelta(days=3))
    Budget.objects.create(name="The desk's", subject="token", subject_id=token.pk, limit=50, unit="tokens")
    revoked, _ = issue_token(bob, "lost")
    revoke_token(revoked.pk)
    issue_token(rita, "of another team")

    answer = client_of(lea).get("/team/")

    budgets = [(budget.name, budget.whose, budget.left) for budget in answer.context["budgets"]]
    assert budgets == [("Bob's own", "bob's", 3), ("The desk's", "token desk of bob", 50)]
    shown = [(token["row"].name, token["ends_soon"]) for token in answer.context["tokens"]]
    assert shown == [("desk", True)]
    content = answer.content.decode()
    row = ClientToken.objects.get(pk=token.pk)
    for secret in (plain, plain[8:20], row.digest, row.last_four, row.prefix):
        assert secret not in content
    assert reverse("admin:keys_clienttoken_change", args=[token.pk]) in content


def test_who_is_in_no_team_is_told_so(client_of, roles: None) -> None:
    alone = make_user("alone")

    assert "You are in no team" in text_of(client_of(alone).get("/team/"))
    assert "My team" not in text_of(client_of(alone).get("/"))


def test_other_teams_are_out_of_reach(client_of, busy_team: None, bob: User, lea: User, rita: User) -> None:
    riggers, builders = team_of(rita), team_of(bob)
    for user in (bob, lea):
        assert client_of(user).get(f"/team/?team={riggers}").status_code == 404
    assert client_of(rita).get(f"/team/?team={builders}").status_code == 404
    role = Group.objects.get(name=Role.LEAD.group_name)
    for nonsense in (str(role.pk), "0", "-1", "x", "9" * 30, "%00"):
        assert client_of(lea).get(f"/team/?team={nonsense}").status_code == 404


def test_who_supports_sees_every_team(client_of, busy_team: None, sam: User, rita: User) -> None:
    answer = client_of(sam).get(f"/team/?team={team_of(rita)}")

    assert [person.name for person in answer.context["people"]] == ["rita"]
    assert [team.name for team in answer.context["teams"]] == ["builders", "riggers"]


def test_a_lead_of_one_team_is_no_lead_of_others(client_of, busy_team: None, lea: User) -> None:
    """The role counts for all own teams, as everywhere."""
    painters = Group.objects.create(name="painters")
    lea.groups.add(painters)

    answer = client_of(User.objects.get(pk=lea.pk)).get(f"/team/?team={painters.pk}")

    assert [person.name for person in answer.context["people"]] == ["lea"]


def test_who_left_stays_in_the_numbers(client_of, busy_team: None, bob: User, lea: User) -> None:
    bob.groups.clear()
    gone = make_user("gone", "builders")
    add_record(gone, cost_nano=2 * NANO)
    gone.delete()

    people = client_of(lea).get("/team/").context["people"]

    assert [(person.name, person.is_member) for person in people] == [("bob", False), ("gone", False), ("lea", True)]


def test_hostile_names_break_nothing(client_of, lea: User) -> None:
    for number, name in enumerate(("<script>alert(1)</script>", RIGHT_TO_LEFT, "W" * 150)):
        user = make_user(name, "builders")
        issue_token(user, name[:100])
        add_record(user, alias=f"<img src=x onerror=alert({number})>" + "x" * 150)
    give_role(lea, Role.LEAD)

    page = client_of(lea).get("/team/").content.decode()

    assert "<script>alert" not in page
    assert "<img src=x" not in page


def test_the_page_takes_few_queries(client_of, lea: User, django_assert_max_num_queries) -> None:
    for number in range(12):
        user = make_user(f"user-{number}", "builders")
        add_record(user, issue_token(user, f"token {number}")[0], alias=f"m{number}")
        Budget.objects.create(name=f"b{number}", subject="user", subject_id=user.pk, limit=NANO)
    browser = client_of(lea)

    with django_assert_max_num_queries(QUERIES_MAX):
        browser.get("/team/?days=90")


def test_one_walk_gives_each_grouping_as_its_own(bob: User, lea: User) -> None:
    add_record(bob, alias="a", cost_nano=1, state="timeout")
    add_record(bob, alias="b", cost_nano=2, age=timedelta(days=1))
    add_record(lea, alias="a", cost_nano=4)
    since = first_day(7, add_record(lea, alias="a", cost_nano=8).started_at)

    found = read_figures("team_id", team_of(bob) or 0, since, ("day", "alias", "user_id"))

    def costs(name: str) -> dict[object, int]:
        return {each.label: each.cost_nano for each in found[name]}

    assert sorted(costs("day").values()) == [2, 13]
    assert costs("alias") == {"a": 13, "b": 2}
    assert costs("user_id") == {bob.pk: 3, lea.pk: 12}
    assert {each.user_name: each.errors for each in found["user_id"]} == {"bob": 1, "lea": 0}
    assert costs("alias") == {
        each.label: each.cost_nano for each in read_figures("team_id", team_of(bob) or 0, since, ("alias",))["alias"]
    }


def test_a_share_is_of_the_cost_or_else_of_the_tokens() -> None:
    def used(cost: int, tokens: int) -> Figures:
        sums = dict.fromkeys(("requests", "errors", "unpriced", "cache_read_tokens", "cache_write_tokens"), 0)
        return Figures(label="", cost_nano=cost, input_tokens=tokens, output_tokens=0, **sums)

    assert share_percent(used(1, 90), used(4, 100)) == 25
    assert share_percent(used(0, 90), used(0, 100)) == 90
    assert share_percent(nothing(""), nothing("")) is None
