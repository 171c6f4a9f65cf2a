"""The pages about usage, as people use them."""

import csv
import random
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, WebSocketRoute, expect

from tests.browser.conftest import OpenPage, ask, serious_faults
from tests.gateway import RunningGateway

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

INDEX, REPORT, INCIDENT = "/admin/", "/admin/usage/reports/", "/admin/usage/incident/"


def a_request(site: RunningGateway, state: str) -> str:
    (row,) = site.sql("SELECT request_id FROM usage_usagerecord WHERE state = %s ORDER BY id LIMIT 1", state)
    return str(row["request_id"])


def test_a_request_arrives_live(open_page: OpenPage, site: RunningGateway) -> None:
    page = open_page("root", INDEX)
    expect(page.locator("#live-status")).to_have_text("live")
    requests = page.locator('[data-live="today.requests"]')
    before = int(requests.inner_text().replace(",", ""))

    ask(site, "script/status=400,message=live")

    expect(requests).to_have_text(f"{before + 1:,}")
    expect(page.locator("#live-errors li").first).to_contain_text("script/status=400,message=live")
    page.locator("#live-errors a").first.click()
    expect(page.get_by_role("heading", name="Timeline")).to_be_visible()


def requests_today(site: RunningGateway) -> str:
    query = "SELECT coalesce(sum(requests), 0)::bigint AS n FROM usage_usagehour WHERE hour >= date_trunc('day', now(), 'UTC')"
    return f"{site.sql(query)[0]['n']:,}"


def test_the_strip_is_right_again_after_losses_and_a_broken_connection(
    open_page: OpenPage, site: RunningGateway
) -> None:
    dice = random.Random(5)  # noqa: S311  (repeatable, and nothing secret)
    sockets: list[WebSocketRoute] = []

    def lossy(socket: WebSocketRoute) -> None:
        sockets.append(socket)
        server = socket.connect_to_server()
        server.on_message(lambda message: socket.send(message) if dice.random() > 0.3 else None)

    page = open_page("root", REPORT)
    page.route_web_socket("**/ws/live/", lossy)
    page.goto(INDEX)
    status, requests = page.locator("#live-status"), page.locator('[data-live="today.requests"]')
    expect(status).to_have_text("live")

    for _ in range(4):
        ask(site, "glm-5")
        page.wait_for_timeout(400)
    expect(requests).to_have_text(requests_today(site))

    sockets[0].close(code=1012)
    expect(status).to_have_text("connection lost, trying again")
    ask(site, "glm-5")
    expect(status).to_have_text("live")
    expect(requests).to_have_text(requests_today(site))
    assert len(sockets) == 2


def test_the_page_without_javascript_shows_the_snapshot(
    open_page: OpenPage, browser: Browser, site: RunningGateway
) -> None:
    session = open_page("root", INDEX).context.storage_state()
    context = browser.new_context(base_url=site.base_url, storage_state=session, java_script_enabled=False)
    page = context.new_page()
    page.goto(INDEX)

    expect(page.locator('[data-live="today.requests"]')).to_have_text(requests_today(site))
    expect(page.locator("#live-status")).to_be_visible()
    assert page.locator(".bridge-values table").count() >= 2
    context.close()


def test_a_report_with_a_filter_and_its_export(open_page: OpenPage, site: RunningGateway, tmp_path: Path) -> None:
    page = open_page("root", REPORT)
    page.select_option("select[name=by]", "model")
    page.select_option("select[name=then]", "state")
    page.select_option("select[name=state]", "ok")
    page.get_by_role("button", name="Show").click()

    shown = {tuple(row.locator("th").all_inner_texts()) for row in page.locator("tbody tr").all()}
    assert {("glm-5", "ok"), ("qwen-4", "ok")} <= shown
    assert {state for _, state in shown} == {"ok"}
    words = parse_qs(urlsplit(page.url).query)
    assert (words["by"], words["then"], words["state"]) == (["model"], ["state"], ["ok"])
    with page.expect_download() as download:
        page.get_by_role("link", name="Export CSV").click()
    file = tmp_path / "report.csv"
    download.value.save_as(file)
    lines = csv.DictReader(file.read_text(encoding="utf-8").splitlines())
    assert {(line["model"], line["state"]) for line in lines} == shown


def test_charts_are_drawn(open_page: OpenPage) -> None:
    page = open_page("root", INDEX)

    for name in ("tokens", "latency", "errors"):
        expect(page.locator(f'[data-chart="{name}-data"] canvas')).to_be_visible()
    expect(page.locator('[data-chart="tokens-data"] .u-legend')).to_contain_text("cache read")


def test_a_request_page_tells_how_it_went(open_page: OpenPage, site: RunningGateway) -> None:
    page = open_page("root", f"/admin/usage/requests/{a_request(site, 'truncated')}/")

    expect(page.get_by_role("heading", name="Attempt 1")).to_be_visible()
    expect(page.get_by_text("Why this key?")).to_be_visible()
    expect(page.locator(".bridge-state").first).to_have_text("truncated")


def test_an_incident_can_be_copied(open_page: OpenPage) -> None:
    page = open_page("root", INCIDENT, permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy the incident").click()

    text = page.evaluate("navigator.clipboard.readText()")
    assert text.startswith("Incident ")
    assert "First bad request: " in text


def test_a_lead_of_another_team_sees_none_of_it(open_page: OpenPage, site: RunningGateway) -> None:
    page = open_page("charlie", INDEX)

    expect(page.locator("#live-status")).to_have_text("live")
    (own,) = site.sql("SELECT coalesce(sum(requests), 0)::bigint AS n FROM usage_usagehour WHERE team_name = 'blue'")
    expect(page.locator('[data-live="today.requests"]')).to_have_text(f"{own['n']:,}")
    assert page.request.get(f"/admin/usage/requests/{a_request(site, 'ok')}/").status == 404


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(open_page: OpenPage, site: RunningGateway, scheme: str, width: int) -> None:
    page = open_page("root", INDEX, scheme=scheme, width=width)
    faults = {}
    for path in (INDEX, REPORT, INCIDENT, f"/admin/usage/requests/{a_request(site, 'ok')}/"):
        page.goto(path)
        page.wait_for_load_state("load")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{path} is wider than the window"
        if found := serious_faults(page):
            faults[path] = found

    assert not faults
