import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from keys.models import Credential, CredentialState, Upstream
from tests.usage.people import HOSTILE, a_lead, a_supporter, an_hour, as_
from usage.histogram import BUCKETS
from usage.models import PoolChange
from usage.pages.calendar import WEEKS, first_day, weeks_of_use
from usage.pages.charts import OTHERS, SERIES_MAX, Chart, Series, bars, pivot
from usage.pages.dashboard import Figure, _hours, figures
from usage.pages.days import read_days
from usage.pages.timeline import credential_bands
from usage.visibility import Scope

pytestmark = pytest.mark.django_db

INDEX = "/admin/"
ALL = Scope(is_everything=True)
NOW = datetime(2026, 3, 4, 10, 30, tzinfo=UTC)


@pytest.fixture
def this_hour() -> datetime:
    return timezone.now().replace(minute=0, second=0, microsecond=0)


def by_label(found: list[Figure]) -> Mapping[str, Figure]:
    return {figure.label: figure for figure in found}


def test_today_is_compared_with_the_same_time_yesterday() -> None:
    day = timedelta(days=1)
    for hour in (NOW.replace(hour=0, minute=0), NOW.replace(minute=0)):
        an_hour(hour, requests=30, cost_nano=2_000)
        an_hour(hour - day, requests=20, cost_nano=1_000)
    an_hour(NOW.replace(hour=11, minute=0) - day, requests=999)
    an_hour(NOW.replace(minute=0) - 2 * day, requests=999)

    found = by_label(figures(ALL, _hours(ALL, NOW), NOW))

    # Of yesterday's hour from 10 to 11 one half counts.
    assert (found["Requests"].value, found["Requests"].before) == (60, 30)
    assert found["Requests"].change_percent == 100
    assert (found["Cost"].value, found["Cost"].before) == (4_000, 1_500)


def test_the_first_hour_of_a_day_has_figures_too() -> None:
    midnight = NOW.replace(hour=0, minute=0)
    an_hour(midnight)

    found = by_label(figures(ALL, _hours(ALL, midnight), midnight))

    assert (found["Requests"].value, found["Requests"].change_percent) == (10, None)


def test_errors_shares_and_ttft_are_figures() -> None:
    hour = NOW.replace(minute=0)
    histogram = [0] * BUCKETS
    histogram[5] = 10
    an_hour(hour, ttft_histogram=histogram, cache_read_tokens=300)
    an_hour(hour, state="timeout", attempts=5, requests=0, input_tokens=0)

    found = by_label(figures(ALL, _hours(ALL, NOW), NOW))

    assert (found["Errors"].value, found["Errors"].note) == (5, "33.3 % of attempts")
    assert found["Cache share"].value == 0.75
    assert 75 <= (found["TTFT, median"].value or 0) <= 100


@pytest.mark.parametrize(
    ("value", "before", "is_more_good", "mood"),
    [(2, 1, None, ""), (2, 1, True, "good"), (2, 1, False, "bad"), (1, 2, False, "good"), (1, 1, True, ""), (1, 0, True, "")],
)  # fmt: skip
def test_a_change_has_a_mood(value: float, before: float, is_more_good: bool | None, mood: str) -> None:
    assert Figure(label="x", unit="count", value=value, before=before, is_more_good=is_more_good).mood == mood


def test_the_page_shows_charts_with_their_values_as_tables(this_hour: datetime) -> None:
    an_hour(this_hour, output_tokens=77_777, ttft_histogram=[1] * BUCKETS)
    an_hour(this_hour, state="timeout", error_type="timeout_error", attempts=3, cost_nano=5_000_000_000)

    page = as_(User.objects.create_superuser("root")).get(INDEX).content.decode()

    assert page.count('class="bridge-chart"') == 3
    assert page.count('type="application/json"') >= 3
    assert "77,777" in page
    assert "timeout error" in page
    assert "$5.00" in page


def test_an_empty_ledger_tells_the_first_steps() -> None:
    page = as_(User.objects.create_superuser("root")).get(INDEX).content.decode()
    leads = as_(a_lead("charlie", "blue")).get(INDEX).content.decode()

    for found in (page, leads):
        assert "No request yet" in found
        assert "Tokens by kind" not in found
    assert "Add an upstream" in page
    assert "Add an upstream" not in leads


def test_a_quiet_month_has_a_page(this_hour: datetime) -> None:
    an_hour(this_hour - timedelta(days=60))

    page = as_(User.objects.create_superuser("root")).get(INDEX).content.decode()

    assert 'class="bridge-chart"' not in page
    assert "Nothing in this time." in page
    assert "No request yet" not in page


def test_what_the_side_bar_has_is_not_listed_again(this_hour: datetime) -> None:
    an_hour(this_hour)

    page = as_(User.objects.create_superuser("root")).get(INDEX).content.decode()

    assert 'href="/admin/auth/group/add/"' not in page
    assert page.count('href="/admin/keys/route/"') == 1


def test_no_script_stands_in_the_page_itself(this_hour: datetime) -> None:
    an_hour(this_hour, team_name=HOSTILE, upstream_model=HOSTILE, user_name=HOSTILE)

    page = as_(User.objects.create_superuser("root")).get(INDEX).content.decode()

    inline = re.findall(r"<script(?![^>]*\bsrc=)(?![^>]*application/json)[^>]*>", page)
    assert not inline
    assert not re.search(r"<[^>]*\son[a-z]+=", page)
    assert "<img src=x" not in page
    assert page.count("</script>") == len(re.findall("<script", page))


def test_a_lead_sees_the_own_team_only(this_hour: datetime) -> None:
    charlie = a_lead("charlie", "blue")
    blue = Group.objects.get(name="blue")
    an_hour(this_hour, team_id=blue.pk + 1, team_name="the others", requests=4_321, cost_nano=1_000_000_000)
    an_hour(this_hour, team_id=blue.pk, team_name="blue", requests=1_234, cost_nano=1_000_000_000)
    PoolChange.objects.create(upstream_id=1, upstream_name="provider", state="ejected", credential_label="shared key")

    page = as_(charlie).get(INDEX).content.decode()

    assert "1,234" in page
    assert "4,321" not in page
    assert "the others" not in page
    assert "shared key" not in page


def test_support_sees_every_team_and_the_pool(this_hour: datetime) -> None:
    an_hour(this_hour, team_name="the others", requests=4_321, cost_nano=1_000_000_000)
    PoolChange.objects.create(upstream_id=1, upstream_name="provider", state="ejected", credential_label="shared key")

    page = as_(a_supporter("dora")).get(INDEX).content.decode()

    assert "4,321" in page
    assert "the others" in page
    assert "shared key" in page


def test_staff_without_the_permission_see_the_plain_index(this_hour: datetime) -> None:
    an_hour(this_hour, requests=4_321)

    response = as_(User.objects.create_user("mallory", is_staff=True)).get(INDEX)

    assert response.status_code == 200
    assert b"4,321" not in response.content
    assert b'id="live"' not in response.content
    assert b"No request yet" not in response.content


def test_the_page_needs_few_queries(this_hour: datetime) -> None:
    for place in range(30):
        an_hour(this_hour, team_id=place, team_name=f"team {place}")
        PoolChange.objects.create(upstream_id=1, upstream_name="p", credential_label=str(place), state="ejected")
    client = as_(User.objects.create_superuser("root"))

    with CaptureQueriesContext(connection) as queries:
        client.get(INDEX)

    assert len(queries) < 25


def changed(at: datetime, state: str, *, until: datetime | None = None, label: str = "key") -> None:
    PoolChange.objects.create(
        upstream_id=1, upstream_name="p", credential_label=label, state=state, until=until, changed_at=at
    )


def shown_bands(**changes: Any) -> list[tuple[str, datetime, datetime]]:
    bands = credential_bands(NOW, since=NOW - timedelta(hours=24))
    return [(band.state, band.start, band.end) for row in bands.rows for band in row.bands]


def test_a_band_lasts_until_the_rest_is_over_or_something_else_happens() -> None:
    hour = timedelta(hours=1)
    changed(NOW - 10 * hour, "cooling", until=NOW - 9 * hour)
    changed(NOW - 5 * hour, "ejected", until=NOW + hour)
    changed(NOW - 4 * hour, "ready")
    changed(NOW - 2 * hour, "quarantined")

    assert shown_bands() == [
        ("cooling", NOW - 10 * hour, NOW - 9 * hour),
        ("ejected", NOW - 5 * hour, NOW - 4 * hour),
        ("quarantined", NOW - 2 * hour, NOW),
    ]


def test_a_band_that_began_before_is_cut_and_one_that_ended_before_is_left_out() -> None:
    hour = timedelta(hours=1)
    changed(NOW - 30 * hour, "ejected", until=NOW - 20 * hour)
    changed(NOW - 30 * hour, "cooling", until=NOW - 29 * hour, label="other")

    assert shown_bands() == [("ejected", NOW - 24 * hour, NOW - 20 * hour)]


def test_the_history_follows_the_states_of_credentials() -> None:
    upstream = Upstream.objects.create(name="provider", base_url="https://example.com/v1")
    credential = Credential.objects.create(upstream=upstream, label="team key")
    state = CredentialState.objects.create(credential=credential, state="ready")
    state.last_success_at = timezone.now()
    state.save()
    assert not PoolChange.objects.exists()

    CredentialState.objects.update(state="cooling", cause="rate_limit", until=timezone.now())
    CredentialState.objects.update(last_failure_at=timezone.now())
    CredentialState.objects.update(state="ready", until=None, cause="")
    CredentialState.objects.update(state="ejected", cause="server_error")
    state.delete()

    told = [(c.upstream_name, c.credential_label, c.state, c.cause) for c in PoolChange.objects.order_by("id")]
    assert told == [
        ("provider", "team key", "cooling", "rate_limit"),
        ("provider", "team key", "ready", ""),
        ("provider", "team key", "ejected", "server_error"),
        ("provider", "team key", "ready", ""),
    ]


def test_deleting_a_credential_that_rests_does_no_harm() -> None:
    upstream = Upstream.objects.create(name="provider", base_url="https://example.com/v1")
    credential = Credential.objects.create(upstream=upstream, label="team key")
    CredentialState.objects.create(credential=credential, state="ejected")

    credential.delete()

    assert [change.state for change in PoolChange.objects.order_by("id")] == ["ejected", "ready"]


def test_old_history_goes_with_the_records() -> None:
    now = timezone.now()
    changed(now - timedelta(days=400), "ejected", label="old")
    changed(now - timedelta(days=2), "ejected", label="new")

    call_command("apply_retention", "365", "--dry-run")
    assert PoolChange.objects.count() == 2
    call_command("apply_retention", "365")
    assert [change.credential_label for change in PoolChange.objects.all()] == ["new"]


def test_days_are_summed_up_by_day_and_by_who_pays() -> None:
    day = timedelta(days=1)
    an_hour(NOW.replace(minute=0), requests=100, cost_nano=5)
    an_hour(NOW.replace(minute=0), requests=1, cost_nano=7, unpriced=2, upstream_model="qwen-4")
    an_hour(NOW.replace(minute=0) - 3 * day, requests=9, cost_nano=1_000)
    an_hour(NOW.replace(minute=0) - 9 * day, requests=9)

    days = read_days(
        ALL, since=NOW.replace(hour=0, minute=0) - 5 * day, costs_since=NOW.replace(hour=0, minute=0) - day
    )

    assert days.requests == {NOW.date(): 101, NOW.date() - 3 * day: 9}
    costs = {(cost.team, cost.model): (cost.nano, cost.unpriced) for cost in days.costs}
    assert costs == {("red", "glm-5"): (5, 0), ("red", "qwen-4"): (7, 2)}
    assert read_days(Scope(), since=NOW - 5 * day, costs_since=NOW).requests == {}


def test_the_calendar_has_a_day_for_each_day_up_to_today() -> None:
    today = NOW.date()
    weeks = weeks_of_use({today: 100, today - timedelta(days=7): 1}, today)

    days = {day.date: day for _, row in weeks.rows for day in row if day}
    assert len(weeks.heads) == WEEKS
    assert (min(days), max(days)) == (first_day(today), today)
    assert (days[today].requests, days[today].level) == (100, 4)
    assert days[today - timedelta(days=7)].level == 1
    assert days[today - timedelta(days=1)].level == 0


def test_a_chart_keeps_the_largest_series_and_adds_up_the_rest() -> None:
    rows = [{"hour": NOW, "error": f"error {place}", "errors": place} for place in range(1, 10)]

    series = pivot(rows, moment="hour", name="error", value="errors", moments=[NOW])

    assert len(series) == SERIES_MAX + 1
    assert (series[0].name, series[0].values) == ("error 9", [9])
    assert (series[-1].name, series[-1].values) == (OTHERS, [1 + 2 + 3])


def test_a_charts_table_leaves_out_moments_without_values() -> None:
    moments = [NOW, NOW + timedelta(hours=1), NOW + timedelta(hours=2)]
    series = [Series(name="a", values=[1, 0, None]), Series(name="b", values=[0, 0, 2])]
    chart = Chart(name="x", title="x", kind="bars", unit="count", moments=moments, series=series)

    assert [moment for moment, _ in chart.rows] == [moments[2], moments[0]]
    assert chart.data["series"][1] == {"name": "b", "values": [0, 0, 2]}


def test_bars_are_shares_of_the_longest() -> None:
    found = bars({"a": 50, "b": 100, "c": 0, "d": 1}, limit=2)

    assert [(bar.name, bar.percent) for bar in found] == [("b", 100), ("a", 50), (OTHERS, 1)]
