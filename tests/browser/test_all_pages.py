"""axe-core on every page that a superuser can open, in light and dark, on a phone and on a desk."""

import re

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import OpenPage, serious_faults

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(300)]

#: Pages that no other page of the side bar leads to.
MORE = (
    "/admin/usage/reports/?by=model&then=state",
    "/admin/keys/upstream/add/",
    "/admin/keys/upstream/import/",
    "/admin/keys/credential/add/",
    "/admin/keys/clienttoken/add/",
    "/admin/keys/route/add/",
    "/admin/usage/budget/add/",
    "/admin/usage/price/add/",
    "/admin/auth/user/add/",
    "/tokens/new/",
    "/password/",
    "/second-factor/",
)
#: The API's page is a document of Swagger UI, not ours.
FOREIGN = re.compile(r"/docs$")
LIST = re.compile(r"^/admin/(keys|usage|auth|members)/\w+/$")


def paths_of(page: Page) -> list[str]:
    """Give what the side bar leads to, and one object's page from each list."""
    page.goto("/admin/")
    bar = page.locator("#nav-sidebar a, nav a, aside a").evaluate_all("links => links.map(link => link.pathname)")
    paths = [path for path in dict.fromkeys(bar) if not FOREIGN.search(path)]
    for path in [path for path in paths if LIST.match(path)]:
        page.goto(path)
        links = page.locator("#result_list tbody a").evaluate_all("links => links.map(link => link.pathname)")
        paths += links[:1]
    return [*paths, *MORE]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_axe_finds_nothing_serious_on_any_page(open_page: OpenPage, scheme: str, width: int) -> None:
    page = open_page("root", "/admin/", scheme=scheme, width=width)
    found: list[str] = []
    paths = paths_of(page)
    assert len(paths) > 30, paths

    for path in paths:
        page.goto(path)
        found += [f"{path} {fault}" for fault in serious_faults(page)]
        if page.evaluate("document.documentElement.scrollWidth") > width:
            found.append(f"{path} is wider than the screen")
    assert not found, "\n".join(found)
