"""The first administrator, with the password that `up` printed, on a gateway that nobody has used."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenPage, ask, log_in
from tests.up import up

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


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
