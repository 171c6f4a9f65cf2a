"""A real gateway in front of a real browser.

One gateway serves all tests, since a start takes seconds. They don't meet: each has people, a team and names of its
own (see `cast`), counts what is its own, and scripts faults for models that nobody else asks for. What a fault does to
the pool stays with the credential and that model, as long as it is an answer to the request (400, a stream that is
cut); none of the tests gives a credential away (401, 402, 429).

Playwright's loop runs in the test's own thread as long as the browser is open, and no async test can run beside it:
hence a browser for each module, not for the session.
"""

import os
import time
from base64 import b32decode
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from django_otp.oath import totp
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.cast import PASSWORD, Cast, Company, Person, read
from tests.gateway import MakeGateway, RunningGateway
from tests.up import Up
from tests.upstream import ScriptedUpstream

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
#: A loaded machine is slow; what doesn't come by then never comes.
PATIENCE_S = 120
#: So long before midnight no test of today's numbers begins.
DAY_ENDS_S = 300
COOKIE = "sessionid"
FILL = "from tests.browser.cast import fill; fill({count}, {upstream!r}, {file!r})"

OpenPage = Callable[..., Page]


@pytest.fixture(scope="session")
def chromium() -> str:
    if not os.access(CHROMIUM, os.X_OK):
        pytest.skip(f"no browser at {CHROMIUM}")
    return CHROMIUM


@pytest.fixture(scope="session")
def filled(
    chromium: str,
    make_lasting_gateway: MakeGateway,
    upstream_process: ScriptedUpstream,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> tuple[RunningGateway, Company]:
    """The gateway, and who is in it: a cast for each test that asks for one."""
    count = sum("cast" in getattr(item, "fixturenames", ()) for item in request.session.items)
    file = tmp_path_factory.mktemp("browser") / "company.json"
    words = FILL.format(count=count, upstream=upstream_process.base_url, file=str(file))
    running = make_lasting_gateway(
        upstream=upstream_process,
        keys=[f"sk-browser-{number}" for number in range(8)],
        commands=[["shell", "--verbosity", "0", "-c", words]],
    )
    return running, read(file)


@pytest.fixture(scope="session")
def site(filled: tuple[RunningGateway, Company]) -> RunningGateway:
    return filled[0]


@pytest.fixture(scope="session")
def company(filled: tuple[RunningGateway, Company]) -> Company:
    return filled[1]


@pytest.fixture(scope="session")
def castings(company: Company) -> Iterator[Cast]:
    return iter(company.casts)


@pytest.fixture
def cast(castings: Iterator[Cast], upstream: ScriptedUpstream) -> Cast:
    """People, a team and names that no other test has; the scripted upstream remembers nothing of others."""
    return next(castings)


@pytest.fixture
def today() -> None:
    """Begin on a day that doesn't end before the test does: it counts what is of today."""
    now = datetime.now(UTC)
    midnight = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    left_s = (midnight - now).total_seconds()
    if left_s < DAY_ENDS_S:
        time.sleep(left_s)


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE_S * 1000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS, timeout=PATIENCE_S * 1000)
        yield browser
        browser.close()


@pytest.fixture
def new_page(browser: Browser, site: RunningGateway) -> Iterator[OpenPage]:
    """Open empty pages, each in a profile of its own; what the console complains of fails the test."""
    contexts = []
    complaints: list[str] = []

    def make(*, width: int = 1440, **options: Any) -> Page:
        options.setdefault("base_url", site.base_url)
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        context.set_default_timeout(PATIENCE_S * 1000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        return page

    yield make
    for context in contexts:
        context.close()
    assert not complaints


@pytest.fixture
def open_page(new_page: OpenPage, site: RunningGateway) -> OpenPage:
    """Open a page as somebody who is logged in."""

    def open_as(person: Person, path: str, **options: Any) -> Page:
        page = new_page(**options)
        page.context.add_cookies([{"name": COOKIE, "value": person.session, "url": site.base_url}])
        page.goto(path)
        return page

    return open_as


def log_in(page: Page, name: str, password: str = PASSWORD) -> None:
    """Fill in the form that the page shows."""
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()


def code_of(page: Page) -> str:
    """Read the secret that the open page shows, as an authenticator app does, and give its code of now."""
    letters = page.locator("pre").inner_text().replace(" ", "")
    return f"{totp(b32decode(letters + '=' * (-len(letters) % 8))):06}"


def ask(site: RunningGateway | Up, model: str, token: str, **headers: str) -> httpx.Response:
    """Send one message and read the whole answer."""
    with asking(site, model, token, **headers) as answer:
        answer.read()
    return answer


def asking(site: RunningGateway | Up, model: str, token: str, **headers: str) -> AbstractContextManager[httpx.Response]:
    """Send one message, and hang up at the end of the block."""
    body = {"model": model, "max_tokens": 50, "stream": True, "messages": [{"role": "user", "content": "Hello"}]}
    url, headers = f"{site.base_url}/v1/messages", {"x-api-key": token, **headers}
    return httpx.stream("POST", url, json=body, headers=headers, trust_env=False, timeout=PATIENCE_S)


def ask_until_known(site: RunningGateway, model: str, token: str, **headers: str) -> None:
    """Use a token that the server may not have noticed yet."""
    until = time.monotonic() + PATIENCE_S
    while (status := ask(site, model, token, **headers).status_code) != 200:
        assert time.monotonic() < until, status
        time.sleep(0.5)  # too many refusals in a minute would count as guessing


def records_of(site: RunningGateway, person: Person, count: int = 1) -> list[dict[str, Any]]:
    """Wait until somebody has so many records, all of them settled; return them, oldest first."""
    until = time.monotonic() + PATIENCE_S
    while True:
        records = site.sql("SELECT * FROM usage_usagerecord WHERE user_id = %s ORDER BY id", person.id)
        if len(records) >= count and all(record["state"] != "open" for record in records):
            return records
        assert time.monotonic() < until, [(record["state"], record["alias"]) for record in records]
        time.sleep(0.1)


def a_request(site: RunningGateway, person: Person, model: str, **headers: str) -> str:
    """Ask once for somebody who never did; return the request's id when its record is settled."""
    ask(site, model, person.token, **headers)
    (record,) = records_of(site, person)
    return str(record["request_id"])


def exported(page: Page, kind: str, folder: Path) -> str:
    """Follow the page's link to a file and return what is in it."""
    with page.expect_download() as download:
        page.get_by_role("link", name=f"Export {kind}").click()
    file = folder / kind
    download.value.save_as(file)
    return file.read_text(encoding="utf-8")
