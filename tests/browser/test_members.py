"""The member's pages and the playground in a real browser; complaints of the console fail each test."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.cast import Cast
from tests.browser.conftest import OpenPage, a_request, ask_until_known, code_of, log_in, records_of
from tests.browser.looks import faults_of
from tests.gateway import RunningGateway

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

TOKEN = re.compile(r"brg_[0-9A-Za-z]{39}")
MARKUP = "<img src=x onerror=window.hit=1>\u202e"
AS_CLIENT = {"user-agent": "claude-cli/2.1.332 (external, cli)"}


def issue(page: Page, name: str) -> str:
    """Issue a token on the page that is open; return it in plain text."""
    page.get_by_role("link", name="New token").first.click()
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Issue it").click()
    expect(page.locator("main")).to_contain_text("brg_")
    return str(TOKEN.findall(page.locator("main").inner_text())[0])


def test_a_member_issues_a_token_and_sees_it_arrive(open_page: OpenPage, site: RunningGateway, cast: Cast) -> None:
    page = open_page(cast.member, "/")
    token = issue(page, MARKUP)
    assert faults_of(page) == []
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy the token").click()
    expect(page.get_by_role("status").filter(has_text="Copied the token.")).to_have_count(1)
    assert page.evaluate("navigator.clipboard.readText()") == token

    with page.expect_popup() as popup:
        page.get_by_role("link", name="Test my set-up").click()
    waiting = popup.value
    expect(waiting.get_by_text("Waiting for a request")).to_be_visible()
    assert faults_of(waiting) == []
    ask_until_known(site, "glm-5", token, **AS_CLIENT)
    expect(waiting.get_by_text("It works")).to_be_visible()
    expect(waiting.locator("main")).to_contain_text("claude-cli 2.1.332")

    page.goto("/")
    assert token not in page.content()
    assert MARKUP[:20] in page.locator("main").inner_text()
    assert page.evaluate("window.hit") is None


def test_a_token_rotates_and_ends(open_page: OpenPage, site: RunningGateway, cast: Cast) -> None:
    page = open_page(cast.member, "/")
    issue(page, "ci")
    page.goto("/")
    page.get_by_role("link", name="Rotate ci").first.click()
    page.get_by_label("The old one stops working").select_option("at once")
    page.get_by_role("button", name="Rotate it").click()
    expect(page.locator("main")).to_contain_text("brg_")
    ask_until_known(site, "glm-5", TOKEN.findall(page.locator("main").inner_text())[0])

    page.goto("/")
    expect(page.get_by_role("row", name=re.compile("^ci ")).last).to_contain_text("expired")


def test_everything_works_without_javascript(new_page: OpenPage, site: RunningGateway, cast: Cast) -> None:
    page = new_page(java_script_enabled=False)
    page.goto("/")
    log_in(page, cast.member.name)
    expect(page.get_by_role("heading", name="My usage")).to_be_visible()
    expect(page.locator("main")).to_contain_text("ANTHROPIC_BASE_URL")

    token = issue(page, "plain")
    page.goto("/")
    page.get_by_role("link", name="Test the set-up with plain").click()
    ask_until_known(site, "glm-5", token, **AS_CLIENT)
    expect(page.get_by_text("It works")).to_be_visible()


def test_a_phone_shows_what_to_do_with_a_token(open_page: OpenPage, cast: Cast) -> None:
    page = open_page(cast.member, "/", width=390)
    tokens = page.locator("section[aria-labelledby=tokens]")

    for name in ("Test the set-up with laptop", "Rotate laptop", "Revoke laptop"):
        box = tokens.get_by_role("link", name=name).bounding_box()
        assert box is not None
        assert box["x"] + box["width"] < 390
    assert tokens.locator(".scroll").evaluate("part => part.scrollWidth - part.clientWidth") == 0
    # The second row of the pages' names begins where the first does.
    lefts = page.locator("nav[aria-label=Pages] > *").evaluate_all(
        "parts => parts.filter((part, at) => at && part.offsetTop > parts[at - 1].offsetTop + 9).map(part => part.offsetLeft)"
    )
    assert len(lefts) == 1
    assert lefts[0] < 20


@pytest.mark.usefixtures("today")
def test_what_a_member_used_is_on_the_own_page(open_page: OpenPage, site: RunningGateway, cast: Cast) -> None:
    session, model = f"session-{cast.tag}", f"own-{cast.tag}"
    a_request(site, cast.member, model, **{"x-claude-code-session-id": session})
    page = open_page(cast.member, "/?days=1")
    figures = page.locator(".figures > div")
    expect(figures.filter(has_text="Requests").locator("dd")).to_have_text("1")
    expect(page.get_by_role("region", name="By model").or_(page.locator("[aria-labelledby=models]"))).to_contain_text(
        model
    )

    page.get_by_role("link", name=session).click()
    expect(page).to_have_url(re.compile(rf"/sessions/{session}/"))
    expect(page.locator("main")).to_contain_text(model)


def test_a_second_factor_is_enrolled_and_asked_for(new_page: OpenPage, open_page: OpenPage, cast: Cast) -> None:
    page = open_page(cast.member, "/second-factor/")
    page.locator("input[name=code]").fill(code_of(page))
    page.get_by_role("button", name="Turn it on").click()
    expect(page.get_by_role("heading", name="The second factor is on")).to_be_visible()
    assert faults_of(page) == []
    backup = page.locator(".codes li").first.inner_text()

    again = new_page()
    again.goto("/")
    log_in(again, cast.member.name)
    expect(again.get_by_role("heading", name="Your second factor")).to_be_visible()
    assert faults_of(again) == []
    again.locator("input[name=code]").fill(backup)
    again.get_by_role("button", name="Go on").click()
    expect(again.get_by_role("heading", name="My usage")).to_be_visible()


def test_the_playground_shows_both_sides_and_no_secret(open_page: OpenPage, site: RunningGateway, cast: Cast) -> None:
    page = open_page(cast.admin, "/admin/playground/")
    page.get_by_label("Model alias").fill("glm-5")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("heading", name="What the client gets")).to_be_visible()

    shown = page.content()
    assert "chat/completions" in shown
    assert "message_stop" in shown
    assert "sk-browser" not in shown
    assert faults_of(page) == []
    assert [record["client_name"] for record in records_of(site, cast.admin)] == ["playground"]
