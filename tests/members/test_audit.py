import pytest
from django.contrib.auth.models import Group, User
from django.db import DatabaseError, connection, transaction
from django.urls import reverse

from keys.credentials import add_secrets
from keys.models import ClientToken, Credential, Upstream
from keys.tokens import issue_token, revoke_token
from members.models import AuditEntry
from tests.members.test_pages import text_of
from usage.models import Budget

CANARY = "sk-canary-7f3a9b2c4d5e6f"


def entries(kind: str) -> list[tuple[str, str, str, list[str]]]:
    rows = AuditEntry.objects.filter(kind=kind).order_by("id")
    return [(row.action, row.before, row.after, row.fields) for row in rows]


def test_a_credential_leaves_one_entry_for_each_change(upstream: Upstream) -> None:
    credential = add_secrets(upstream, [CANARY]).credentials[0]
    before = AuditEntry.objects.count()
    Credential.objects.filter(pk=credential.pk).update(label="renamed", enabled=False)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM keys_credential")

    assert AuditEntry.objects.count() == before + 2
    assert entries("credential")[-2:] == [
        ("changed", "key-1", "renamed", ["enabled", "label"]),
        ("deleted", "renamed", "", []),
    ]
    assert "canary" not in repr(list(AuditEntry.objects.values()))


def test_tokens_budgets_and_rights_are_watched(bob: User) -> None:
    row, _ = issue_token(bob, "laptop")
    revoke_token(row.pk)
    budget = Budget.objects.create(name="bob's", subject="user", subject_id=bob.pk, limit=5)
    Budget.objects.filter(pk=budget.pk).update(limit=50)
    bob.groups.add(Group.objects.create(name="testers"))
    User.objects.filter(pk=bob.pk).update(is_superuser=True)

    assert entries("client token") == [
        ("added", "", "bob: laptop", []),
        ("changed", "bob: laptop", "bob: laptop", ["revoked_at"]),
    ]
    assert entries("budget")[-1] == ("changed", "bob's", "bob's", ["limit"])
    assert entries("group membership")[-1] == ("added", "", "bob in testers", [])
    assert entries("user")[-1] == ("changed", "bob", "bob", ["is_superuser"])


def test_what_happens_all_the_time_is_not_written_down(bob: User) -> None:
    row, _ = issue_token(bob)
    budget = Budget.objects.create(name="bob's", subject="user", subject_id=bob.pk, limit=5)
    before = AuditEntry.objects.count()

    ClientToken.objects.filter(pk=row.pk).update(last_used_at="2026-01-01T00:00:00Z")
    Budget.objects.filter(pk=budget.pk).update(spent=4, reserved=1, warned_percent=50)
    User.objects.filter(pk=bob.pk).update(last_login="2026-01-01T00:00:00Z")
    Budget.objects.get().save()

    assert AuditEntry.objects.count() == before


def test_an_admin_action_names_its_actor_and_address(client_of, ada: User, bob: User) -> None:
    row, _ = issue_token(bob)
    data = {"action": "revoke", "_selected_action": [row.pk]}

    client_of(ada).post(reverse("admin:keys_clienttoken_changelist"), data, REMOTE_ADDR="192.0.2.7")

    entry = AuditEntry.objects.filter(kind="client token").latest("id")
    assert (entry.actor, entry.address, entry.fields) == ("ada", "192.0.2.7", ["revoked_at"])
    revoke_token(issue_token(bob)[0].pk)
    assert AuditEntry.objects.latest("id").actor == ""


@pytest.mark.parametrize("change", ["UPDATE members_auditentry SET actor = 'x'", "DELETE FROM members_auditentry"])
def test_sql_can_not_rewrite_the_log(bob: User, change: str) -> None:
    issue_token(bob)

    with pytest.raises(DatabaseError, match="only ever added to"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(change)


def test_the_orm_can_not_rewrite_the_log(bob: User) -> None:
    issue_token(bob)
    entry = AuditEntry.objects.latest("id")

    for change in (entry.delete, entry.save, lambda: AuditEntry.objects.update(actor="x")):
        with pytest.raises(DatabaseError), transaction.atomic():
            change()


def test_the_log_is_read_only_in_the_admin(client_of, root: User, bob: User) -> None:
    issue_token(bob)
    entry = AuditEntry.objects.latest("id")
    browser = client_of(root)

    assert f"{AuditEntry.objects.count()} audit entries" in text_of(
        browser.get(reverse("admin:members_auditentry_changelist"))
    )
    assert browser.get(reverse("admin:members_auditentry_change", args=[entry.pk])).status_code == 200
    assert browser.get(reverse("admin:members_auditentry_add")).status_code == 403
    assert browser.post(reverse("admin:members_auditentry_delete", args=[entry.pk])).status_code == 403
