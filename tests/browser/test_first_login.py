"""The first administrator, with the password that `up` printed, on a gateway that nobody has used."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenPage, ask, code_of, log_in
from tests.up import up

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]


@pytest.mark.usefixtures("today")
def test_the_first_administrator_logs_in_and_sees_the_first_request(new_page: OpenPage, tmp_path: Path) -> None:
    with up(tmp_path / "data") as fresh:
        name, password = fresh.login
        page = new_page(base_url=fresh.base_url)
        page.goto("/admin/")
        log_in(page, name, "not the password that was printed")
        expect(page.locator("body")).to_contain_text("correct username and password")

        log_in(page, name, password)
        expect(page.get_by_role("heading", name="Dashboard")).to_be_visible()
        expect(page.locator("#live-status")).to_have_text("live")
        assert ask(fresh, "claude-sonnet-4-5", fresh.token).status_code == 200
        expect(page.locator('[data-live="today.requests"]')).to_have_text("1")
        # Its live connection would complain of the gateway's end.
        page.close()


def test_where_a_second_factor_is_required_it_comes_before_the_admin(new_page: OpenPage, tmp_path: Path) -> None:
    with up(tmp_path / "data", BRIDGE_REQUIRE_2FA="true") as fresh:
        name, password = fresh.login
        page = new_page(base_url=fresh.base_url)
        page.goto("/admin/")
        log_in(page, name, password)
        enrol = page.get_by_role("heading", name="Enrol a second factor")
        expect(enrol).to_be_visible()
        expect(page.get_by_text("everybody who works in the admin needs one")).to_be_visible()
        for path in ("/admin/", "/admin/keys/credential/", "/admin/playground/", "/"):
            page.goto(path)
            expect(enrol).to_be_visible()
            assert page.get_by_role("link", name="Credentials").count() == 0

        page.goto("/admin/")
        page.get_by_label("Code").fill("000000")
        page.get_by_role("button", name="Turn it on").click()
        expect(page.get_by_text("That code doesn't fit.")).to_be_visible()
        page.wait_for_timeout(1500)  # a wrong code makes the next one wait
        page.get_by_label("Code").fill(code_of(page))
        page.get_by_role("button", name="Turn it on").click()
        expect(page.get_by_role("heading", name="The second factor is on")).to_be_visible()
        page.get_by_role("link", name="I kept them").click()

        expect(page.get_by_role("heading", name="Dashboard")).to_be_visible()
        expect(page.locator("#live-status")).to_have_text("live")
        page.close()
