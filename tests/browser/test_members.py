"""The member's pages and the playground in a real browser; complaints of the console fail each test."""

import re

import httpx
import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import PASSWORD, OpenPage, serious_faults
from tests.gateway import RunningGateway

pytestmark = [pytest.mark.browser]

TOKEN = re.compile(r"brg_[0-9A-Za-z]{39}")
MARKUP = "<img src=x onerror=window.hit=1>\u202e"
PAGES = ("/", "/tokens/new/", "/password/", "/prove/", "/second-factor/", "/admin/playground/")


def ask_with(site: RunningGateway, token: str) -> None:
    body = {"model": "glm-5", "max_tokens": 50, "messages": [{"role": "user", "content": "Hello"}]}
    headers = {"x-api-key": token, "user-agent": "claude-cli/2.1.332 (external, cli)"}
    answer = httpx.post(f"{site.base_url}/v1/messages", json=body, headers=headers, trust_env=False, timeout=20)
    assert answer.status_code == 200, answer.text


def test_a_member_issues_a_token_and_sees_it_arrive(open_page: OpenPage, site: RunningGateway) -> None:
    page = open_page("charlie", "/")
    page.get_by_role("link", name="New token").first.click()
    page.get_by_label("Name").fill(MARKUP)
    page.get_by_role("button", name="Issue it").click()
    token = TOKEN.findall(page.locator("main").inner_text())[0]
    page.get_by_role("button", name="Copy the token").click()

    with page.expect_popup() as popup:
        page.get_by_role("link", name="Test my set-up").click()
    waiting = popup.value
    waiting.get_by_text("Waiting for a request").wait_for()
    ask_with(site, token)
    waiting.get_by_text("It works").wait_for()
    assert "claude-cli 2.1.332" in waiting.locator("main").inner_text()

    page.goto("/")
    assert token not in page.content()
    assert MARKUP[:20] in page.locator("main").inner_text()
    assert page.evaluate("window.hit") is None


def test_a_token_rotates_and_ends(open_page: OpenPage, site: RunningGateway) -> None:
    page = open_page("charlie", "/tokens/new/")
    page.get_by_label("Name").fill("ci")
    page.get_by_role("button", name="Issue it").click()
    page.goto("/")
    page.get_by_role("link", name="Rotate ci").first.click()
    page.get_by_label("The old one stops working").select_option("at once")
    page.get_by_role("button", name="Rotate it").click()
    ask_with(site, TOKEN.findall(page.locator("main").inner_text())[0])

    page.goto("/")
    assert "expired" in page.get_by_role("row", name=re.compile("^ci ")).last.inner_text()


def test_everything_works_without_javascript(browser: Browser, site: RunningGateway) -> None:
    page = browser.new_context(base_url=site.base_url, java_script_enabled=False).new_page()
    page.goto("/")
    page.get_by_label("Username").fill("charlie")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("heading", name="My usage").wait_for()
    assert "ANTHROPIC_BASE_URL" in page.locator("main").inner_text()

    page.get_by_role("link", name="New token").first.click()
    page.get_by_label("Name").fill("plain")
    page.get_by_role("button", name="Issue it").click()
    token = TOKEN.findall(page.locator("main").inner_text())[0]
    page.goto("/")
    page.get_by_role("link", name="Test the set-up with plain").click()
    ask_with(site, token)
    page.get_by_text("It works").wait_for(timeout=15_000)


def test_a_lead_does_not_see_another_team(open_page: OpenPage) -> None:
    for path in ("/admin/keys/clienttoken/", "/admin/usage/usagerecord/", "/admin/"):
        page = open_page("charlie", path)
        assert "alice" not in page.content()
    for path in ("/admin/keys/credential/", "/admin/auth/user/", "/admin/members/auditentry/", "/admin/playground/"):
        assert page.request.get(path).status == 403


def test_the_playground_shows_both_sides_and_no_secret(open_page: OpenPage, site: RunningGateway) -> None:
    page = open_page("root", "/admin/playground/")
    page.get_by_label("Model alias").fill("glm-5")
    page.get_by_role("button", name="Send").click()
    page.get_by_role("heading", name="What the client gets").wait_for()

    shown = page.content()
    assert "chat/completions" in shown
    assert "message_stop" in shown
    assert "sk-one" not in shown
    assert "sk-two" not in shown
    assert [row["user_name"] for row in site.records() if row["client_name"] == "playground"] == ["root"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_axe_finds_nothing_serious(open_page: OpenPage, scheme: str, width: int) -> None:
    page = open_page("root", "/", scheme=scheme, width=width)
    for path in PAGES:
        page.goto(path)
        assert serious_faults(page) == [], path
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
