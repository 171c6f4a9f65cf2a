"""Two people edit one row at the same time: none undoes what the other did unseen."""

import re
from html import unescape

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User

from keys.credentials import add_secrets
from keys.editing import WarnsOfOthers
from keys.models import Credential, Route, Upstream
from keys.tokens import issue_token
from tests.keys.test_admin import form_of
from usage.models import Budget


@pytest.fixture
def credential(upstream: Upstream) -> Credential:
    return add_secrets(upstream, ["sk-shared-1234567890"]).credentials[0]


def address(row) -> str:
    return f"/admin/{row._meta.app_label}/{row._meta.model_name}/{row.pk}/change/"


def seen(page) -> str:
    return unescape(re.search(r'name="seen_values" value="([^"]*)"', page.content.decode())[1])


def test_who_saves_second_is_told_what_the_first_changed(client_of, alice: User, credential: Credential) -> None:
    browser, page = client_of(alice), address(credential)
    before = seen(browser.get(page))
    browser.post(page, form_of(credential, weight=5, rpm=60, seen_values=before))
    credential.refresh_from_db()
    assert (credential.weight, credential.rpm) == (5, 60)

    late = browser.post(page, form_of(credential, priority=3, seen_values=before))

    assert "Meanwhile somebody else changed: weight, requests per minute." in str(late.context["adminform"].form.errors)
    credential.refresh_from_db()
    assert (credential.priority, credential.weight, credential.rpm) == (0, 5, 60)
    again = browser.post(page, form_of(credential, priority=3, seen_values=seen(late)))
    assert again.status_code == 302
    credential.refresh_from_db()
    assert (credential.priority, credential.weight, credential.rpm) == (3, 1, None)


@pytest.mark.parametrize("junk", ["", "{", "[]", "7", '{"label": 1, "no such field": "x"}', '{"no such field": "x"}'])
def test_a_form_without_readable_marks_is_saved_or_told(
    junk: str, client_of, alice: User, credential: Credential
) -> None:
    answer = client_of(alice).post(address(credential), form_of(credential, weight=4, seen_values=junk))

    assert answer.status_code == (200 if "label" in junk else 302)


def test_what_is_spent_meanwhile_is_no_change_of_the_form(client_of, alice: User) -> None:
    facts = {"name": "b", "subject": "user", "subject_id": alice.pk, "unit": "tokens", "limit": 100}
    budget = Budget.objects.create(**facts)
    browser = client_of(alice)
    before = seen(browser.get(address(budget)))
    Budget.objects.update(spent=70, reserved=5)

    form = {"name": "b", "user": alice.pk, "unit": "tokens", "period": "month", "amount": "200", "enabled": "on"}
    assert browser.post(address(budget), form | {"seen_values": before}).status_code == 302
    late = browser.post(address(budget), form | {"amount": "300", "seen_values": before})
    assert "somebody else changed: amount" in str(late.context["adminform"].form.errors)


def test_each_form_that_is_edited_carries_its_marks(client_of, alice: User, credential: Credential) -> None:
    browser = client_of(alice)
    budget = Budget.objects.create(name="b", subject="user", subject_id=alice.pk, unit="tokens", limit=1)
    group = Group.objects.create(name="core")
    token, _ = issue_token(alice)
    model = credential.upstream.models.create(name="m")
    rows = [credential, credential.upstream, model, Route.objects.create(alias="a"), token, budget, group, alice]

    for row in rows:
        marks = seen(browser.get(address(row)))
        assert len(marks) > 10, row
        assert "password" not in marks
    watched = {model for model, page in admin.site._registry.items() if isinstance(page, WarnsOfOthers)}
    assert watched == {type(row) for row in rows}
    assert 'name="seen_values"' not in browser.get("/admin/keys/credential/add/").content.decode()
