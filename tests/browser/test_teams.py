"""What a lead sees: all of the own team, and nothing of the others, which have used the gateway for weeks."""

import json

import pytest
from playwright.sync_api import expect

from tests.browser.cast import Cast, Company
from tests.browser.conftest import OpenPage, a_request
from tests.gateway import RunningGateway
from tests.made_up_team import KEYS, TEAMS

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

#: Where names of people, teams and credentials stand.
PAGES = (
    "/admin/",
    "/admin/usage/reports/?by=user&then=team",
    "/admin/usage/reports/?by=credential",
    "/admin/usage/incident/?hours=24",
    "/admin/usage/usagerecord/",
    "/admin/usage/budget/",
    "/admin/keys/clienttoken/",
    "/team/",
)
FORBIDDEN = (
    "/admin/keys/credential/",
    "/admin/keys/upstream/",
    "/admin/auth/user/",
    "/admin/members/auditentry/",
    "/admin/playground/",
    "/admin/model-check/",
)
#: The usage API, which the exports are of.
FILES = ("report?by=user,team", "report?by=credential", "records", "records?format=jsonl", "sessions")


def test_a_lead_sees_what_the_own_team_did(open_page: OpenPage, site: RunningGateway, cast: Cast) -> None:
    a_request(site, cast.member, f"own-{cast.tag}")

    page = open_page(cast.lead, "/team/")

    expect(page.locator("main")).to_contain_text(cast.member.name)
    expect(page.locator("main")).to_contain_text("laptop")


@pytest.mark.usefixtures("today")
def test_a_lead_sees_nothing_of_another_team(
    open_page: OpenPage, site: RunningGateway, cast: Cast, company: Company
) -> None:
    request_id = a_request(site, cast.member, f"own-{cast.tag}")
    foreign = [*TEAMS, *(name for names in TEAMS.values() for name in names), *(f"{name}-1" for name in KEYS)]
    page = open_page(cast.lead, "/admin/")
    expect(page.locator("#live-status")).to_have_text("live")
    expect(page.locator('[data-live="today.requests"]')).to_have_text("1")

    for path in PAGES:
        page.goto(path)
        words = page.locator("body").inner_text().split()
        assert cast.lead.name in words or cast.member.name in words, path
        assert not set(foreign) & set(words), path
    for path in FILES:
        text = page.request.get(f"/usage/api/{path}").text()
        assert not [name for name in foreign if f'"{name}"' in text], path
    (line,) = page.request.get("/usage/api/records?format=jsonl").text().splitlines()
    assert json.loads(line)["request_id"] == request_id


def test_a_lead_opens_nothing_of_another_team(
    open_page: OpenPage, site: RunningGateway, cast: Cast, company: Company
) -> None:
    (theirs,) = site.sql(
        "SELECT id, request_id, session_id FROM usage_usagerecord"
        " WHERE user_id = %s AND session_id <> '' ORDER BY id DESC LIMIT 1",
        company.walker.id,
    )
    page = open_page(cast.lead, "/admin/")

    assert page.request.get(f"/admin/usage/requests/{theirs['request_id']}/").status == 404
    assert page.request.get(f"/sessions/{theirs['session_id']}/").status == 404
    record = page.request.get(f"/admin/usage/usagerecord/{theirs['id']}/change/")
    assert theirs["request_id"] not in record.text()
    assert {path: page.request.get(path).status for path in FORBIDDEN} == dict.fromkeys(FORBIDDEN, 403)
