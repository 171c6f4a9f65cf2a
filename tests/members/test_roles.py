"""Five kinds of people and every page: who gets in, and what they find there."""

import pytest
from django.contrib.auth.models import Group, User
from django.urls import reverse

from bridgeproject.navigation import SECTIONS
from keys.credentials import add_secrets
from keys.models import ClientToken, Credential, Route, Upstream
from keys.roles import Role, give_role, roles_of, team_of
from keys.tokens import issue_token
from tests.members.conftest import PASSWORD, make_user
from tests.members.ledger import add_record
from tests.members.test_pages import text_of
from usage.models import Budget

PEOPLE = ("ada", "sam", "lea", "bob", "nobody")
#: Page -> the status for an admin, support, a lead, a member and a stranger.
MATRIX = {
    "admin:index": (200, 200, 200, 302, 302),
    "admin:usage_usagerecord_changelist": (200, 200, 200, 302, 302),
    "usage_pages:report": (200, 200, 200, 302, 302),
    "usage_pages:answers": (200, 200, 200, 302, 302),
    "usage_pages:incident": (200, 200, 200, 302, 302),
    "admin:usage_budget_changelist": (200, 200, 200, 302, 302),
    "admin:usage_budget_add": (200, 403, 403, 302, 302),
    "admin:usage_price_changelist": (200, 200, 403, 302, 302),
    "admin:usage_price_add": (200, 403, 403, 302, 302),
    "admin:keys_upstream_changelist": (200, 200, 403, 302, 302),
    "admin:keys_upstream_add": (200, 403, 403, 302, 302),
    "admin:keys_upstreammodel_changelist": (200, 200, 403, 302, 302),
    "admin:keys_upstreammodel_add": (200, 403, 403, 302, 302),
    "admin:keys_credential_changelist": (200, 200, 403, 302, 302),
    "admin:keys_credential_add": (200, 403, 403, 302, 302),
    "admin:keys_route_changelist": (200, 200, 403, 302, 302),
    "admin:keys_route_add": (200, 403, 403, 302, 302),
    "admin:keys_clienttoken_changelist": (200, 200, 200, 302, 302),
    "admin:keys_clienttoken_add": (200, 403, 403, 302, 302),
    "admin:auth_user_changelist": (200, 200, 403, 302, 302),
    "admin:auth_user_add": (200, 403, 403, 302, 302),
    "admin:auth_group_changelist": (200, 200, 403, 302, 302),
    "admin:auth_group_add": (200, 403, 403, 302, 302),
    "admin:members_auditentry_changelist": (200, 200, 403, 302, 302),
    "admin:members_auditentry_add": (403, 403, 403, 302, 302),
    "playground": (200, 403, 403, 403, 302),
    "model-check": (200, 403, 403, 403, 302),
    "members:home": (200, 200, 200, 200, 302),
    "members:token-new": (200, 200, 200, 200, 302),
    "members:password": (200, 200, 200, 200, 302),
    "members:prove": (200, 200, 200, 200, 302),
    "members:second-factor": (200, 200, 200, 200, 302),
}


@pytest.mark.parametrize("page", MATRIX)
def test_each_page_lets_in_whom_it_is_for(client_of, page: str, request: pytest.FixtureRequest) -> None:
    found = []
    for who in PEOPLE:
        browser = client_of(None if who == "nobody" else request.getfixturevalue(who))
        found.append(browser.get(reverse(page)).status_code)

    assert dict(zip(PEOPLE, found, strict=True)) == dict(zip(PEOPLE, MATRIX[page], strict=True))


def test_every_page_of_the_side_bar_is_in_the_matrix() -> None:
    pages = {name for section in SECTIONS.values() for _, _, name, _ in section}

    assert {name for name in pages if not name.startswith("api:")} <= set(MATRIX)


def test_a_lead_finds_the_own_team_only(client_of, lea: User, bob: User, rita: User) -> None:
    own, _ = issue_token(bob, "bob's laptop")
    other, _ = issue_token(rita, "rita's laptop")
    own_record, other_record = add_record(bob, own), add_record(rita, other)
    browser = client_of(lea)

    tokens = browser.get(reverse("admin:keys_clienttoken_changelist"))
    assert [row.pk for row in tokens.context["cl"].result_list] == [own.pk]
    assert "rita" not in tokens.content.decode()
    records = browser.get(reverse("admin:usage_usagerecord_changelist"))
    assert [row.pk for row in records.context["cl"].result_list] == [own_record.pk]
    assert "rita" not in records.content.decode()
    for page in ("change", "history", "delete"):
        assert browser.get(reverse(f"admin:keys_clienttoken_{page}", args=[other.pk])).status_code in (403, 404)
    assert browser.get(reverse("admin:usage_usagerecord_change", args=[other_record.pk])).status_code != 200


def test_a_lead_finds_the_budgets_of_the_own_team_only(client_of, lea: User, bob: User, rita: User) -> None:
    token = issue_token(bob)[0]
    for number, user in enumerate((bob, rita)):
        Budget.objects.create(name=f"user {number}", subject="user", subject_id=user.pk, limit=1)
        Budget.objects.create(name=f"team {number}", subject="team", subject_id=team_of(user), limit=1)
    Budget.objects.create(name="token 0", subject="token", subject_id=token.pk, limit=1)
    Budget.objects.create(name="token 1", subject="token", subject_id=issue_token(rita)[0].pk, limit=1)

    listed = client_of(lea).get(reverse("admin:usage_budget_changelist"))

    assert {budget.name for budget in listed.context["cl"].result_list} == {"user 0", "team 0", "token 0"}


def test_a_lead_revokes_tokens_of_the_own_team_only(client_of, lea: User, bob: User, rita: User) -> None:
    own, other = issue_token(bob)[0], issue_token(rita)[0]
    data = {"action": "revoke", "_selected_action": [own.pk, other.pk]}

    client_of(lea).post(reverse("admin:keys_clienttoken_changelist"), data)

    assert list(ClientToken.objects.exclude(revoked_at=None)) == [own]


def test_a_lead_without_a_team_leads_nobody(client_of, bob: User, roles) -> None:
    loner = make_user("loner", role=Role.LEAD)
    issue_token(bob)
    add_record(bob)

    for page in ("keys_clienttoken", "usage_usagerecord"):
        listed = client_of(loner).get(reverse(f"admin:{page}_changelist"))
        assert not listed.context["cl"].result_list


def test_support_reads_everything_and_changes_nothing(client_of, sam: User, bob: User, upstream: Upstream) -> None:
    credential = add_secrets(upstream, ["sk-stored-0000-0001"]).credentials[0]
    token = issue_token(bob)[0]
    browser = client_of(sam)
    rows = {"credential": credential, "clienttoken": token, "upstream": upstream}

    for model, row in rows.items():
        page = reverse(f"admin:keys_{model}_change", args=[row.pk])
        assert browser.get(page).status_code == 200
        assert browser.post(page, {"label": "x", "name": "x", "enabled": ""}).status_code == 403
        assert browser.post(reverse(f"admin:keys_{model}_delete", args=[row.pk]), {"post": "yes"}).status_code == 403
        for action in ("disable", "drain", "revoke", "delete_selected"):
            data = {"action": action, "_selected_action": [row.pk], "post": "yes"}
            browser.post(reverse(f"admin:keys_{model}_changelist"), data)
    browser.post(reverse("admin:auth_user_change", args=[bob.pk]), {"is_superuser": "on", "username": "bob"})

    assert (Credential.objects.get().enabled, Credential.objects.get().label) == (True, credential.label)
    assert ClientToken.objects.get().revoked_at is None
    assert not User.objects.get(username="bob").is_superuser


def test_an_admin_makes_no_superuser_and_touches_none(client_of, ada: User, bob: User, root: User) -> None:
    form = {"username": "bob", "is_active": "on", "is_superuser": "on", "date_joined_0": "2026-01-01"}
    client_of(ada).post(reverse("admin:auth_user_change", args=[bob.pk]), form)
    client_of(ada).post(reverse("admin:auth_user_change", args=[root.pk]), form | {"username": "stolen"})
    client_of(ada).post(
        reverse("admin:auth_user_password_change", args=[root.pk]), {"password1": "x", "password2": "x"}
    )

    assert list(User.objects.filter(is_superuser=True)) == [root]
    assert User.objects.get(pk=root.pk).password == root.password


def test_a_role_opens_the_admin_and_is_no_team(client_of, root: User, bob: User) -> None:
    lead = Group.objects.get(name="role: lead")
    form = {"username": "bob", "is_active": "on", "groups": [lead.pk]}

    answer = client_of(root).post(reverse("admin:auth_user_change", args=[bob.pk]), form)

    assert answer.status_code == 302, answer.context["errors"]
    fresh = User.objects.get(pk=bob.pk)
    assert fresh.is_staff
    assert roles_of(fresh) == {Role.LEAD}
    assert team_of(fresh) is None


def test_a_user_comes_with_team_and_role(client_of, root: User) -> None:
    groups = [Group.objects.create(name="testers"), Group.objects.get(name="role: lead")]
    form = {"username": "nils", "usable_password": "true", "password1": PASSWORD, "password2": PASSWORD}
    browser = client_of(root)
    assert "Teams and roles" in text_of(browser.get(reverse("admin:auth_user_add")))

    answer = browser.post(reverse("admin:auth_user_add"), form | {"groups": [group.pk for group in groups]})

    assert answer.status_code == 302, answer.context["errors"]
    nils = User.objects.get(username="nils")
    assert (nils.is_staff, roles_of(nils), team_of(nils)) == (True, {Role.LEAD}, groups[0].pk)


def test_single_permissions_are_folded_away(client_of, root: User, bob: User) -> None:
    page = client_of(root).get(reverse("admin:auth_user_change", args=[bob.pk])).content.decode()

    before, _, folded = page.partition("<details>")
    folded = folded.partition("</details>")[0]
    for name in ("is_staff", "is_superuser", "user_permissions"):
        assert f'name="{name}"' in folded
        assert f'name="{name}"' not in before
    assert 'name="groups"' in before


def test_an_inactive_user_has_no_role(ada: User) -> None:
    ada.is_active = False

    assert roles_of(ada) == frozenset()
    assert not ada.has_perm("keys.view_credential")


def test_roles_can_not_be_deleted_or_renamed(client_of, root: User) -> None:
    lead = Group.objects.get(name="role: lead")
    browser = client_of(root)
    browser.post(reverse("admin:auth_group_change", args=[lead.pk]), {"name": "builders"})
    browser.post(reverse("admin:auth_group_delete", args=[lead.pk]), {"post": "yes"})

    assert Group.objects.get(pk=lead.pk).name == "role: lead"


def test_a_second_role_adds_to_the_first(lea: User, rita: User) -> None:
    give_role(lea, Role.SUPPORT)

    assert roles_of(lea) == {Role.LEAD, Role.SUPPORT}
    assert lea.has_perm("keys.view_credential")
    assert not lea.has_perm("keys.change_credential")


def test_a_route_is_only_for_admins_to_change(client_of, sam: User, lea: User) -> None:
    route = Route.objects.create(alias="*")
    for user in (sam, lea):
        client_of(user).post(reverse("admin:keys_route_delete", args=[route.pk]), {"post": "yes"})

    assert Route.objects.exists()
