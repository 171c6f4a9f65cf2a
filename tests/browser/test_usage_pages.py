"""The pages about usage, as people use them."""

import csv
import json
import random
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from tests.browser.cast import Cast, Company
from tests.browser.conftest import OpenPage, ask
from tests.gateway import RunningGateway
from usage.reports import DIMENSIONS, SPANS

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

INDEX, REPORT, INCIDENT = "/admin/", "/admin/usage/reports/", "/admin/usage/incident/"


def requests_of_team(site: RunningGateway, cast: Cast) -> str:
    """Give what the team did today as the strip writes it."""
    query = (
        "SELECT coalesce(sum(requests), 0)::bigint AS n FROM usage_usagehour"
        " WHERE hour >= date_trunc('day', now(), 'UTC') AND team_name = %s"
    )
    return f"{site.sql(query, cast.team)[0]['n']:,}"


def a_request(site: RunningGateway, cast: Cast, model: str) -> str:
    """Make a request of the cast's member and return its id once it is settled."""
    ask(site, model, cast.member.token)
    site.settled()
    (row,) = site.sql("SELECT request_id FROM usage_usagerecord WHERE user_id = %s", cast.member.id)
    return str(row["request_id"])


def test_a_request_arrives_live(open_page: OpenPage, site: RunningGateway, cast: Cast) -> None:
    page = open_page(cast.lead, INDEX)
    expect(page.locator("#live-status")).to_have_text("live")
    requests = page.locator('[data-live="today.requests"]')
    expect(requests).to_have_text("0")

    ask(site, f"script/status=400,message=live-{cast.tag}", cast.member.token)

    expect(requests).to_have_text("1")
    expect(page.locator("#live-errors li").first).to_contain_text(f"live-{cast.tag}")
    page.locator("#live-errors a").first.click()
    expect(page.get_by_role("heading", name="Timeline")).to_be_visible()


def test_the_strip_is_right_again_after_losses_and_a_broken_connection(
    open_page: OpenPage, site: RunningGateway, cast: Cast
) -> None:
    dice = random.Random(5)  # noqa: S311  (repeatable, and nothing secret)
    sockets: list[WebSocketRoute] = []

    def lossy(socket: WebSocketRoute) -> None:
        sockets.append(socket)
        server = socket.connect_to_server()
        server.on_message(lambda message: socket.send(message) if dice.random() > 0.3 else None)

    page = open_page(cast.lead, REPORT)
    page.route_web_socket("**/ws/live/", lossy)
    page.goto(INDEX)
    status, requests = page.locator("#live-status"), page.locator('[data-live="today.requests"]')
    expect(status).to_have_text("live")

    for _ in range(4):
        ask(site, "glm-5", cast.member.token)
        page.wait_for_timeout(400)
    expect(requests).to_have_text("4")

    sockets[0].close(code=1012)
    expect(status).to_have_text("connection lost, trying again")
    ask(site, "glm-5", cast.member.token)
    expect(status).to_have_text("live")
    expect(requests).to_have_text("5")
    assert requests_of_team(site, cast) == "5"
    assert len(sockets) == 2


def test_the_page_without_javascript_shows_the_snapshot(open_page: OpenPage, site: RunningGateway, cast: Cast) -> None:
    a_request(site, cast, "glm-5")

    page = open_page(cast.lead, INDEX, java_script_enabled=False)

    expect(page.locator('[data-live="today.requests"]')).to_have_text("1")
    expect(page.locator("#live-status")).to_be_visible()
    assert page.locator(".bridge-values table").count() >= 2


def shown_groups(page: Page) -> list[tuple[str, ...]]:
    return [
        tuple(row.locator("th").all_inner_texts())
        for row in page.locator("section[aria-labelledby=rows-title] tbody tr").all()
    ]


def test_each_report_with_a_filter_and_its_export(open_page: OpenPage, company: Company, tmp_path: Path) -> None:
    page = open_page(company.walker, REPORT)
    for group in [*SPANS, *DIMENSIONS]:
        page.select_option("select[name=by]", group)
        page.select_option("select[name=then]", "")
        page.select_option("select[name=state]", "ok")
        page.get_by_role("button", name="Show").click()
        page.wait_for_url(f"**by={group}**")

        words = parse_qs(urlsplit(page.url).query)
        assert (words["by"], words["state"]) == ([group], ["ok"])
        rows = page.locator("section[aria-labelledby=rows-title] tbody tr").count()
        assert rows > 0, group
        as_csv = list(csv.DictReader(downloaded(page, "CSV", tmp_path).splitlines()))
        as_json = json.loads(downloaded(page, "JSON", tmp_path))["rows"]
        assert len(as_csv) == len(as_json) == rows, group
        assert [line["requests"] for line in as_csv] == [str(row["requests"]) for row in as_json], group


def downloaded(page: Page, kind: str, folder: Path) -> str:
    with page.expect_download() as download:
        page.get_by_role("link", name=f"Export {kind}").click()
    file = folder / kind
    download.value.save_as(file)
    return file.read_text(encoding="utf-8")


def test_two_groups_and_a_filter_are_what_the_page_says(open_page: OpenPage, company: Company, tmp_path: Path) -> None:
    page = open_page(company.walker, f"{REPORT}?by=model&then=state&state=ok")

    groups = shown_groups(page)
    assert {state for _, state in groups} == {"ok"}
    lines = csv.DictReader(downloaded(page, "CSV", tmp_path).splitlines())
    assert [(line["model"], line["state"]) for line in lines] == groups


def test_the_list_of_requests_is_filtered_and_exported(open_page: OpenPage, site: RunningGateway, cast: Cast) -> None:
    request_id = a_request(site, cast, "glm-5")
    page = open_page(cast.lead, "/admin/usage/usagerecord/")
    expect(page.locator("#result_list")).to_contain_text("glm-5")

    page.goto("/admin/usage/usagerecord/?state=timeout")
    expect(page.get_by_text("Nothing fits.")).to_be_visible()
    answer = page.request.get("/usage/api/records?format=jsonl")
    lines: list[Any] = [json.loads(line) for line in answer.text().splitlines()]
    assert [line["request_id"] for line in lines] == [request_id]


def test_charts_are_drawn(open_page: OpenPage, company: Company) -> None:
    page = open_page(company.walker, INDEX)

    for name in ("tokens", "latency", "errors"):
        expect(page.locator(f'[data-chart="{name}-data"] canvas')).to_be_visible()
    expect(page.locator('[data-chart="tokens-data"] .u-legend')).to_contain_text("cache read")


def test_a_request_page_tells_how_it_went(open_page: OpenPage, site: RunningGateway, cast: Cast) -> None:
    page = open_page(
        cast.admin, f"/admin/usage/requests/{a_request(site, cast, f'script/cut,frame=3,message={cast.tag}')}/"
    )

    expect(page.get_by_role("heading", name="Attempt 1")).to_be_visible()
    expect(page.get_by_text("Why this key?")).to_be_visible()
    expect(page.locator(".bridge-state").first).to_have_text("truncated")


def test_an_incident_can_be_copied(open_page: OpenPage, company: Company) -> None:
    page = open_page(company.walker, f"{INCIDENT}?hours=24", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy the incident").click()

    text = page.evaluate("navigator.clipboard.readText()")
    assert text.startswith("Incident ")
    assert "First bad request: " in text


def test_a_lead_of_another_team_sees_none_of_it(
    open_page: OpenPage, site: RunningGateway, cast: Cast, company: Company
) -> None:
    page = open_page(cast.lead, INDEX)

    expect(page.locator("#live-status")).to_have_text("live")
    expect(page.locator('[data-live="today.requests"]')).to_have_text("0")
    (theirs,) = site.sql(
        "SELECT request_id FROM usage_usagerecord WHERE user_id = %s ORDER BY id DESC LIMIT 1", company.walker.id
    )
    assert page.request.get(f"/admin/usage/requests/{theirs['request_id']}/").status == 404
