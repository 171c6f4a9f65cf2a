"""The dashboard: what arrives while somebody looks, also over a bad connection, and what is there without JavaScript."""

import json

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from tests.browser.cast import Cast, Company
from tests.browser.conftest import OpenPage, a_request, ask, asking
from tests.gateway import RunningGateway

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

INDEX = "/admin/"
LOST = "connection lost, trying again"
#: Writes down what the status says, however shortly.
LISTEN = """() => {
  window.said = [];
  const status = document.getElementById("live-status");
  new MutationObserver(() => window.said.push(status.textContent)).observe(status, { childList: true });
}"""


def check_strip(page: Page, **numbers: int) -> None:
    """Wait until the strip shows these numbers."""
    for name, number in numbers.items():
        place = "in_flight" if name == "in_flight" else f"today.{name}"
        expect(page.locator(f'[data-live="{place}"]')).to_have_text(str(number))


@pytest.mark.usefixtures("today")
def test_a_request_arrives_live(open_page: OpenPage, site: RunningGateway, cast: Cast) -> None:
    page = open_page(cast.lead, INDEX)
    expect(page.locator("#live-status")).to_have_text("live")
    check_strip(page, in_flight=0, requests=0, errors=0)

    with asking(site, "script/frames=4000,gap=50ms", cast.member.token):
        check_strip(page, in_flight=1)
    check_strip(page, in_flight=0, requests=1, errors=0)

    ask(site, f"script/status=400,message=live-{cast.tag}", cast.member.token)

    check_strip(page, in_flight=0, requests=2, errors=1)
    expect(page.locator("#live-errors li")).to_have_count(1)
    expect(page.locator("#live-errors li")).to_contain_text(f"live-{cast.tag}")
    page.locator("#live-errors a").click()
    expect(page.get_by_role("heading", name="Timeline")).to_be_visible()


@pytest.mark.usefixtures("today")
def test_the_strip_is_right_again_after_a_loss_and_a_broken_connection(
    open_page: OpenPage, site: RunningGateway, cast: Cast
) -> None:
    sockets: list[WebSocketRoute] = []
    lost: list[str] = []

    def lossy(socket: WebSocketRoute) -> None:
        sockets.append(socket)
        socket.connect_to_server().on_message(lambda message: pass_on(socket, str(message)))

    def pass_on(socket: WebSocketRoute, message: str) -> None:
        if not lost and json.loads(message)["values"].get("today", {}).get("requests") == 1:
            lost.append(message)
        else:
            socket.send(message)

    page = open_page(cast.lead, "/admin/usage/reports/")
    page.route_web_socket("**/ws/live/", lossy)
    page.goto(INDEX)
    expect(page.locator("#live-status")).to_have_text("live")

    ask(site, f"lost-{cast.tag}", cast.member.token)
    check_strip(page, requests=1)
    assert len(lost) == 1

    count = len(sockets)
    page.evaluate(LISTEN)
    sockets[-1].close(code=1012)
    ask(site, f"unseen-{cast.tag}", cast.member.token)
    check_strip(page, requests=2)
    expect(page.locator("#live-status")).to_have_text("live")
    assert page.evaluate("window.said")[0] == LOST
    assert len(sockets) > count


@pytest.mark.usefixtures("today")
def test_the_page_without_javascript_shows_the_snapshot(open_page: OpenPage, site: RunningGateway, cast: Cast) -> None:
    a_request(site, cast.member, f"plain-{cast.tag}")

    page = open_page(cast.lead, INDEX, java_script_enabled=False)

    check_strip(page, in_flight=0, requests=1, errors=0)
    expect(page.locator("#live-status")).to_be_visible()
    assert page.locator(".bridge-values table").count() >= 2


def test_charts_are_drawn(open_page: OpenPage, company: Company) -> None:
    page = open_page(company.walker, INDEX)

    for name in ("tokens", "latency", "errors"):
        expect(page.locator(f'[data-chart="{name}-data"] canvas')).to_be_visible()
    expect(page.locator('[data-chart="tokens-data"] .u-legend')).to_contain_text("cache read")


def test_a_phone_shows_the_last_weeks_beside_their_days(open_page: OpenPage, company: Company) -> None:
    page = open_page(company.walker, INDEX, width=390)
    calendar = page.locator(".bridge-calendar")
    room = calendar.locator("..").bounding_box()
    calendar_box = calendar.bounding_box()
    name = calendar.locator("tbody th").first.bounding_box()
    assert room
    assert calendar_box
    assert name

    assert calendar_box["width"] > room["width"]
    assert round(calendar_box["x"] + calendar_box["width"]) == round(room["x"] + room["width"])
    assert round(name["x"]) == round(room["x"])
