"""The member's pages and the playground in a real browser; complaints of the console fail each test."""

import re
import time

import pytest
from playwright.sync_api import Page, expect

from tests.browser.cast import Cast
from tests.browser.conftest import PATIENCE_S, OpenPage, ask, log_in
from tests.gateway import RunningGateway

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

TOKEN = re.compile(r"brg_[0-9A-Za-z]{39}")
MARKUP = "<img src=x onerror=window.hit=1>\u202e"
CLIENT = "claude-cli/2.1.332 (external, cli)"


def issue(page: Page, name: str) -> str:
    """Issue a token on the page that is open; return it in plain text."""
    page.get_by_role("link", name="New token").first.click()
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Issue it").click()
    expect(page.locator("main")).to_contain_text("brg_")
    return str(TOKEN.findall(page.locator("main").inner_text())[0])


def ask_until_known(site: RunningGateway, token: str) -> None:
    """Use a token that the server may not have noticed yet."""
    until = time.monotonic() + PATIENCE_S
    while (status := ask(site, "glm-5", token, **{"user-agent": CLIENT}).status_code) != 200:
        assert time.monotonic() < until, status
        time.sleep(0.2)


def test_a_member_issues_a_token_and_sees_it_arrive(open_page: OpenPage, site: RunningGateway, cast: Cast) -> None:
    page = open_page(cast.member, "/")
    token = issue(page, MARKUP)
    page.get_by_role("button", name="Copy the token").click()

    with page.expect_popup() as popup:
        page.get_by_role("link", name="Test my set-up").click()
    waiting = popup.value
    expect(waiting.get_by_text("Waiting for a request")).to_be_visible()
    ask_until_known(site, token)
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
    ask_until_known(site, TOKEN.findall(page.locator("main").inner_text())[0])

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
    ask_until_known(site, token)
    expect(page.get_by_text("It works")).to_be_visible()


def test_what_a_member_used_is_on_the_own_page(open_page: OpenPage, site: RunningGateway, cast: Cast) -> None:
    session = f"session-{cast.tag}"
    assert ask(site, "glm-5", cast.member.token, **{"x-claude-code-session-id": session}).status_code == 200
    site.settled()
    page = open_page(cast.member, "/?days=1")
    expect(page.locator("main")).to_contain_text("glm-5")

    page.locator(f"a[href*='{session}']").first.click()
    expect(page).to_have_url(re.compile(rf"/sessions/{session}/"))
    expect(page.locator("main")).to_contain_text("glm-5")


def test_a_lead_does_not_see_another_team(open_page: OpenPage, cast: Cast) -> None:
    for path in ("/admin/keys/clienttoken/", "/admin/usage/usagerecord/", "/admin/", "/team/"):
        page = open_page(cast.lead, path)
        expect(page.locator("body")).to_be_visible()
        assert "mia" not in page.content()
    for path in ("/admin/keys/credential/", "/admin/auth/user/", "/admin/members/auditentry/", "/admin/playground/"):
        assert page.request.get(path).status == 403


def test_a_lead_sees_what_the_own_team_did(open_page: OpenPage, site: RunningGateway, cast: Cast) -> None:
    assert ask(site, "glm-5", cast.member.token).status_code == 200
    site.settled()

    page = open_page(cast.lead, "/team/")

    expect(page.locator("main")).to_contain_text(cast.member.name)
    expect(page.locator("main")).to_contain_text("laptop")


def test_the_playground_shows_both_sides_and_no_secret(open_page: OpenPage, site: RunningGateway, cast: Cast) -> None:
    page = open_page(cast.admin, "/admin/playground/")
    page.get_by_label("Model alias").fill("glm-5")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("heading", name="What the client gets")).to_be_visible()

    shown = page.content()
    assert "chat/completions" in shown
    assert "message_stop" in shown
    assert "sk-browser" not in shown
    site.settled()
    own = site.sql("SELECT client_name FROM usage_usagerecord WHERE user_id = %s", cast.admin.id)
    assert [row["client_name"] for row in own] == ["playground"]
