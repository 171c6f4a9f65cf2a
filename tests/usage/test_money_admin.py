from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.db.models.signals import pre_save
from django.test import Client
from django.utils import timezone

from usage.models import Budget, Price

pytestmark = [pytest.mark.urls("tests.usage.urls"), pytest.mark.django_db]


@pytest.fixture
def alice(client: Client) -> Client:
    client.force_login(User.objects.create_superuser("alice"))
    return client


def a_form(**changes: Any) -> dict[str, Any]:
    return {"name": "core team", "period": "month", "unit": "usd", "amount": "12.5", "enabled": "on"} | changes


def test_a_budget_is_written_in_usd_and_held_in_1e_9(alice: Client) -> None:
    team = Group.objects.create(name="core")

    response = alice.post(
        "/admin/usage/budget/add/", a_form(team=team.pk, warn_percents="50, 80", warn_emails="a@example.com")
    )

    assert response.status_code == 302, response.context["adminform"].form.errors
    budget = Budget.objects.get()
    assert (budget.subject, budget.subject_id, budget.limit) == ("team", team.pk, 12_500_000_000)
    assert (budget.warn_percents, budget.warn_emails) == ([50, 80], ["a@example.com"])
    page = alice.get(f"/admin/usage/budget/{budget.pk}/change/").content.decode()
    assert 'value="12.5"' in page
    listed = alice.get("/admin/usage/budget/").content.decode()
    assert "0.00 of 12.50 USD" in listed
    assert "team core" in listed


def test_what_is_spent_while_a_form_is_saved_stays_counted(alice: Client) -> None:
    alice.post("/admin/usage/budget/add/", a_form(user=User.objects.get().pk))
    budget = Budget.objects.get()

    def settles_meanwhile(sender: Any, instance: Budget, **_: Any) -> None:
        Budget.objects.filter(pk=instance.pk).update(spent=700, reserved=30, warned_percent=50)

    pre_save.connect(settles_meanwhile, sender=Budget)
    try:
        alice.post(f"/admin/usage/budget/{budget.pk}/change/", a_form(user=User.objects.get().pk, amount="20"))
    finally:
        pre_save.disconnect(settles_meanwhile, sender=Budget)

    budget.refresh_from_db()
    assert (budget.limit, budget.spent, budget.reserved, budget.warned_percent) == (20_000_000_000, 700, 30, 50)


@pytest.mark.parametrize("change", [{"unit": "tokens", "amount": "20"}, {"user": "", "team": "core"}])
def test_what_is_spent_never_counts_in_another_unit_or_for_another(change: dict[str, Any], alice: Client) -> None:
    mine = {"user": User.objects.get().pk}
    alice.post("/admin/usage/budget/add/", a_form(**mine))
    budget = Budget.objects.get()
    change = change | ({"team": Group.objects.create(name="core").pk} if "team" in change else {})

    response = alice.post(f"/admin/usage/budget/{budget.pk}/change/", a_form(**mine | change))

    assert "add a budget of its own" in str(response.context["adminform"].form.errors)
    budget.refresh_from_db()
    assert (budget.unit, budget.subject) == ("usd", "user")


def test_a_budget_begins_anew_when_told_and_running_calls_stay_counted(alice: Client) -> None:
    facts: dict[str, Any] = {"subject": "user", "subject_id": 1, "unit": "tokens", "limit": 100, "warned_percent": 80}
    spent, other = (Budget.objects.create(name=name, spent=90, reserved=7, **facts) for name in ("spent", "other"))

    alice.post("/admin/usage/budget/", {"action": "forgive", "_selected_action": [spent.pk]})

    assert list(Budget.objects.order_by("-name").values_list("spent", "reserved", "warned_percent")) == [
        (0, 7, 0),
        (90, 7, 80),
    ]
    assert "Begun anew; 90 tokens were spent." in alice.get(f"/admin/usage/budget/{spent.pk}/history/").content.decode()
    assert other.pk != spent.pk


def test_who_may_only_look_forgives_nothing(client: Client) -> None:
    looker = User.objects.create_user("looker", is_staff=True)
    looker.user_permissions.add(Permission.objects.get(codename="view_budget"))
    client.force_login(looker)
    budget = Budget.objects.create(name="b", subject="user", subject_id=looker.pk, unit="tokens", limit=100, spent=90)

    client.post("/admin/usage/budget/", {"action": "forgive", "_selected_action": [budget.pk]})

    budget.refresh_from_db()
    assert budget.spent == 90


def test_a_budget_may_be_for_some_models(alice: Client) -> None:
    alice.post("/admin/usage/budget/add/", a_form(user=User.objects.get().pk, aliases="claude-opus-*, o3"))

    budget = Budget.objects.get()
    assert budget.aliases == ["claude-opus-*", "o3"]
    assert 'value="claude-opus-*,o3"' in alice.get(f"/admin/usage/budget/{budget.pk}/change/").content.decode()
    assert "claude-opus-*, o3" in alice.get("/admin/usage/budget/").content.decode()


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"user": "alice", "team": "team"},
        {"user": "alice", "amount": "-1"},
        {"user": "alice", "amount": "1e30"},
        {"user": "alice", "amount": "1.5", "unit": "tokens"},
        {"user": "alice", "warn_percents": "101"},
        {"user": "alice", "warn_emails": "nobody"},
        {"user": "alice", "warn_webhook": "ftp://example.com"},
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(wrong: dict[str, Any], alice: Client) -> None:
    owners = {"user": User.objects.get().pk, "team": Group.objects.create(name="core").pk}

    response = alice.post("/admin/usage/budget/add/", a_form(**wrong | {k: owners[k] for k in owners if k in wrong}))

    assert response.status_code == 200
    assert response.context["adminform"].form.errors
    assert not Budget.objects.exists()


def test_a_price_is_added_and_never_changed(alice: Client) -> None:
    at = timezone.now() - timedelta(hours=1)
    response = alice.post(
        "/admin/usage/price/add/",
        {
            "upstream_model": "glm-5",
            "valid_from_0": f"{at:%Y-%m-%d}",
            "valid_from_1": f"{at:%H:%M:%S}",
            "input": "0.01875",
            "output": "2.2",
        },
    )

    assert response.status_code == 302, response.context["adminform"].form.errors
    price = Price.objects.get()
    assert (price.input_price, price.output_price, price.cache_read_price) == (18_750, 2_200_000, None)
    page = alice.get(f"/admin/usage/price/{price.pk}/change/").content.decode()
    assert "0.01875" in page
    assert "as input" in page
    assert alice.post(f"/admin/usage/price/{price.pk}/change/", {"input": "9"}).status_code == 403
    assert alice.post(f"/admin/usage/price/{price.pk}/delete/", {"post": "yes"}).status_code == 403
    assert alice.get("/admin/usage/price/").status_code == 200


def test_staff_without_the_permission_see_no_money(client: Client) -> None:
    client.force_login(User.objects.create_user("charlie", is_staff=True))

    for page in ("budget/", "budget/add/", "price/", "price/add/"):
        assert client.get(f"/admin/usage/{page}").status_code == 403


def price_form(**more: Any) -> dict[str, Any]:
    at = timezone.now() - timedelta(hours=1)
    times = {"valid_from_0": f"{at:%Y-%m-%d}", "valid_from_1": f"{at:%H:%M:%S}"}
    return {"upstream_model": "sonnet", **times, "input": "3", "output": "15"} | more


def test_a_price_may_be_another_in_long_requests(alice: Client) -> None:
    dear = price_form(cache_write_1h="6", long_above="200000", long_input="6", long_output="22.5", long_cache_read="0")
    response = alice.post("/admin/usage/price/add/", dear)

    assert response.status_code == 302, response.context["adminform"].form.errors
    price = Price.objects.get()
    assert (price.cache_write_1h_price, price.long_above, price.long_output_price) == (6_000_000, 200_000, 22_500_000)
    page = alice.get(f"/admin/usage/price/{price.pk}/change/").content.decode()
    assert "above 200,000 tokens of input: input 6, output 22.5, cache read 0" in page


@pytest.mark.parametrize(
    "half", [{"long_above": "200000"}, {"long_input": "6"}, {"long_above": "9", "long_output": "6"}]
)
def test_half_a_price_of_long_requests_is_refused(half: dict[str, str], alice: Client) -> None:
    response = alice.post("/admin/usage/price/add/", price_form(**half))

    assert "need how long they are" in str(response.context["adminform"].form.errors)
    assert not Price.objects.exists()
