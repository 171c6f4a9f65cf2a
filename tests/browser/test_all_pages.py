"""axe-core on every page of the URL table, in light and dark, on a phone and on a desk."""

from collections.abc import Iterable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.cast import Cast, Company
from tests.browser.conftest import PATIENCE_S, OpenPage
from tests.browser.looks import faults_of
from tests.gateway import RunningGateway

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

#: The same pages with something in them.
MORE = (
    "/admin/usage/reports/?by=day&then=model&show=cost_nano",
    "/admin/usage/reports/?by=user&then=error&state=upstream_error",
    "/admin/usage/usagerecord/?state=upstream_error",
    "/admin/usage/usagerecord/?q=nothing",
    "/admin/usage/answers/?model=kimi-3",
    "/admin/usage/usagerecord/?note=tool_json_loose",
    "/admin/usage/incident/?hours=24",
    "/admin/keys/credential/?state=cooling",
    "/?days=1",
)
#: What somebody sees who just came; the lead has none but themselves and a member.
EMPTY = {
    "member": ("/", "/tokens/new/"),
    "lead": (
        "/admin/",
        "/admin/usage/reports/",
        "/admin/usage/answers/",
        "/admin/usage/incident/",
        "/admin/usage/usagerecord/",
        "/team/",
    ),
}
#: For who isn't logged in.
OUTSIDE = ("/login/", "/admin/login/")


def of_one_request(site: RunningGateway, company: Company) -> Iterator[str]:
    """Give the pages of requests of the walker's: a good one, a bad one, and their session."""
    rows = site.sql(
        "SELECT DISTINCT ON (state = 'ok') request_id, session_id FROM usage_usagerecord"
        " WHERE user_id = %s AND session_id <> '' ORDER BY state = 'ok', id DESC",
        company.walker.id,
    )
    assert len(rows) == 2
    for row in rows:
        yield f"/admin/usage/requests/{row['request_id']}/"
        yield f"/sessions/{row['session_id']}/"


def pages_among(page: Page, paths: Iterable[str]) -> list[str]:
    """Keep what answers with a page: no file or part, no other address, nothing that wants a form to be posted."""
    kept = []
    for path in paths:
        answer = page.request.get(path, max_redirects=0, timeout=PATIENCE_S * 1000)
        assert answer.status < 500, path
        if answer.status == 200 and answer.text().lstrip()[:9].lower() == "<!doctype":
            kept.append(path)
    return kept


def test_nothing_is_seriously_wrong_with_any_page(open_page: OpenPage, site: RunningGateway, company: Company) -> None:
    page = open_page(company.walker, "/admin/")
    named = pages_among(page, (path for _, path in company.pages))
    others = pages_among(page, [*MORE, *of_one_request(site, company)])
    assert len(named) > 65
    assert len(others) == len(MORE) + 4

    found = []
    for path in [*named, *others]:
        page.goto(path)
        found += faults_of(page)

    assert not found, "\n".join(found)


@pytest.mark.parametrize("role", EMPTY)
def test_nothing_is_seriously_wrong_where_there_is_nothing_yet(open_page: OpenPage, cast: Cast, role: str) -> None:
    first, *others = EMPTY[role]
    page = open_page(getattr(cast, role), first)
    found = faults_of(page)
    for path in others:
        page.goto(path)
        found += faults_of(page)

    assert not found, "\n".join(found)


def test_nothing_is_seriously_wrong_with_the_bar_of_actions(open_page: OpenPage, company: Company) -> None:
    page = open_page(company.walker, "/admin/keys/credential/")
    page.locator("#result_list tbody input[type=checkbox]").first.check()
    expect(page.locator("#changelist-actions")).to_be_visible()

    assert faults_of(page) == []


@pytest.mark.parametrize("path", OUTSIDE)
def test_nothing_is_seriously_wrong_with_the_doors(new_page: OpenPage, path: str) -> None:
    page = new_page()
    page.goto(path)

    assert faults_of(page) == []


def test_nothing_is_seriously_wrong_with_what_is_missing(browser: Browser, site: RunningGateway) -> None:
    # The console tells of the 404, so this page isn't one whose complaints fail the test.
    page = browser.new_page(base_url=site.base_url)
    page.goto("/nothing/")
    expect(page.get_by_role("heading", name="There is nothing here")).to_be_visible()

    assert faults_of(page) == []
    page.close()


def test_a_fault_that_only_one_look_has_is_found(new_page: OpenPage) -> None:
    page = new_page()
    page.set_content(
        "<html lang=en><title>Dim</title><meta name=color-scheme content='light dark'>"
        "<style>@media (prefers-color-scheme: dark) and (width > 800px) { body { background: #111 } p { color: #333 } }</style>"
        "<main><h1>Dim</h1><p>It can't be read in the dark.</p></main>"
    )
    expect(page.locator("p")).to_be_visible()

    (fault,) = faults_of(page)

    assert "at 1440, dark: color-contrast: p" in fault
