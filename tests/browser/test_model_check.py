"""The page that checks a model, in a browser: rows fill in one by one, and the conclusion comes at the end."""

import pytest
from playwright.sync_api import expect

from tests.browser.cast import Cast
from tests.browser.conftest import OpenPage, records_of
from tests.browser.looks import faults_of
from tests.gateway import RunningGateway
from tests.upstream import ScriptedUpstream
from translator.core.model_checks.checks import CHECKS

#: No check gets an answer, and the conclusion does; a status on the wire would end in the console.
FAILING = """() => {
  const real = window.fetch;
  window.fetch = async (url, more) => (url.endsWith("/one/") ? new Response("", { status: 502 }) : real(url, more));
}"""
pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]


def test_the_checks_of_a_model_fill_in_one_by_one(
    open_page: OpenPage, site: RunningGateway, cast: Cast, upstream_process: ScriptedUpstream
) -> None:
    alias = f"blind-{cast.tag}"
    upstream_process.script("refuses=images", model=alias)
    page = open_page(cast.admin, "/admin/model-check/")
    expect(page.get_by_text("not made yet")).to_have_count(len(CHECKS))
    page.get_by_label("Model alias").fill(alias)
    with upstream_process.standing_still():  # else the checks may be over before anybody looks
        page.get_by_label("Model alias").press("Enter")
        expect(page.get_by_role("button", name="Check it")).to_be_disabled()

    expect(page.get_by_role("heading", name="It is usable, with limits")).to_be_focused()
    assert page.url.endswith("/admin/model-check/")
    expect(page.get_by_role("status")).to_have_text(f"{len(CHECKS)} of {len(CHECKS)} checks made")
    expect(page.get_by_role("button", name="Check it")).to_be_enabled()
    image = page.locator('[data-check="image"]')
    expect(image).to_contain_text("failed")
    expect(image).to_contain_text('Set "takes images" of the upstream model to no')
    expect(page.locator('[data-verdict="passed"]')).not_to_have_count(0)
    assert faults_of(page) == []
    records = records_of(site, cast.admin, len(CHECKS))
    assert {record["client_name"] for record in records} == {"model check"}

    image.get_by_role("link", name="Its request").click()
    expect(page.get_by_role("heading", name="Timeline")).to_be_visible()


def test_a_gateway_that_gives_no_answer_is_told(open_page: OpenPage, cast: Cast) -> None:
    page = open_page(cast.admin, "/admin/model-check/")
    page.evaluate(FAILING)
    page.get_by_role("button", name="Check it").click()

    expect(page.get_by_role("heading", name="It is not usable")).to_be_focused()
    expect(page.get_by_text("Bridge gave no answer (status 502).")).to_have_count(len(CHECKS))
