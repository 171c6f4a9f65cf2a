"""Single requests: the list with a filter and its exports, the page of one, and the incident that many make."""

import csv
import json
import re
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.cast import Cast
from tests.browser.conftest import OpenPage, a_request, ask, exported, records_of
from tests.gateway import RunningGateway

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

LIST, INCIDENT = "/admin/usage/usagerecord/", "/admin/usage/incident/"


def test_the_list_is_filtered_and_its_exports_hold_what_it_shows(
    open_page: OpenPage, site: RunningGateway, cast: Cast, tmp_path: Path
) -> None:
    ask(site, f"good-{cast.tag}", cast.member.token)
    ask(site, f"script/status=400,message={cast.tag}", cast.member.token)
    _, bad = records_of(site, cast.member, 2)
    page = open_page(cast.lead, LIST)
    rows = page.locator("#result_list tbody tr")
    expect(rows).to_have_count(2)

    page.locator(".filter-open-button").click()
    page.locator("select[name=state]").select_option("upstream_error")
    page.get_by_role("button", name="Apply Filters").click()

    expect(rows).to_have_count(1)
    expect(rows).to_contain_text(cast.member.name)
    expect(rows).to_contain_text(bad["upstream_model"])
    for lines in (
        list(csv.DictReader(exported(page, "CSV", tmp_path).splitlines())),
        [json.loads(line) for line in exported(page, "JSONL", tmp_path).splitlines()],
    ):
        assert [(line["request_id"], line["user_name"], line["state"]) for line in lines] == [
            (bad["request_id"], cast.member.name, "upstream_error")
        ]


def test_a_search_finds_one_request_and_leads_to_its_page(
    open_page: OpenPage, site: RunningGateway, cast: Cast
) -> None:
    request_id = a_request(site, cast.member, f"script/cut,frame=3,message={cast.tag}")
    page = open_page(cast.admin, LIST)
    page.get_by_placeholder("A whole request id").fill(request_id)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(rf"q={request_id}"))
    expect(page.locator("#result_list tbody tr")).to_have_count(1)
    expect(page.get_by_role("link", name="Export CSV")).to_have_count(0)
    page.locator("#result_list a").first.click()

    expect(page.get_by_role("heading", name=request_id)).to_be_visible()
    expect(page.get_by_role("heading", name="Attempt 1")).to_be_visible()
    expect(page.get_by_text("Why this key?")).to_be_visible()
    expect(page.locator(".bridge-state").first).to_have_text("truncated")
    expect(page.locator(".bridge-facts").first).to_contain_text(cast.team)


def test_an_incident_is_what_went_wrong_in_those_hours_and_can_be_copied(
    open_page: OpenPage, site: RunningGateway, cast: Cast
) -> None:
    bad_model = f"script/status=400,message={cast.tag}"
    for model in (f"good-{cast.tag}", *[bad_model] * 3):
        ask(site, model, cast.member.token)
    records = records_of(site, cast.member, 4)
    hour = records[0]["started_at"].replace(minute=0, second=0, microsecond=0)
    page = open_page(cast.lead, INCIDENT, permissions=["clipboard-read", "clipboard-write"])
    # Two hours, since the next may have begun meanwhile.
    look(page, f"{hour:%Y-%m-%dT%H:00}", 2)

    expect(page.locator(".bridge-tiles dd").first).to_have_text("3")
    expect(page.get_by_role("link", name=records[1]["request_id"])).to_be_visible()
    expect(page.get_by_role("region", name="Users hit")).to_contain_text(cast.member.name)
    page.get_by_role("button", name="Copy the incident").click()
    page.wait_for_function(f"async () => (await navigator.clipboard.readText()).includes('{cast.member.name}')")
    text = page.evaluate("navigator.clipboard.readText()")
    assert text.startswith(f"Incident {hour:%Y-%m-%d %H:%M} to ")
    assert "Errors: 3 of 4 attempts (75.0%)" in text
    assert f"First bad request: {records[1]['request_id']}" in text

    page.set_viewport_size({"width": 390, "height": 900})
    for part in page.locator(".bridge-scroll:has(.bridge-hits)").all():
        assert part.evaluate("part => part.scrollWidth - part.clientWidth") == 0
    page.set_viewport_size({"width": 1440, "height": 900})
    look(page, f"{hour - timedelta(hours=3):%Y-%m-%dT%H:00}", 2)
    expect(page.locator(".bridge-tiles dd").first).to_have_text("0")
    expect(page.get_by_text("First bad request", exact=True)).to_have_count(0)


def look(page: Page, start: str, hours: int) -> None:
    page.get_by_label("From (UTC, full hours)").fill(start)
    page.get_by_label("Hours", exact=True).fill(str(hours))
    page.get_by_role("button", name="Look").click()
    expect(page).to_have_url(re.compile(rf"hours={hours}"))
    expect(page.get_by_label("From (UTC, full hours)")).to_have_value(start)
