"""A real gateway in front of a real browser.

Playwright's loop runs in the test's own thread as long as the browser is open, and no async test can run beside it:
hence a browser for each module, not for the session.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.gateway import MakeGateway, RunningGateway
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
PASSWORD = "correct horse battery staple"
AXE = Path(__file__).parent / "vendor" / "axe.min.js"
MAKE_PEOPLE = """
from django.contrib.auth.models import Group, User
from keys.roles import Role, give_role
User.objects.create_superuser("root", password={password!r})
charlie = User.objects.create_user("charlie", password={password!r})
charlie.groups.add(Group.objects.create(name="blue"))
give_role(charlie, Role.LEAD)
"""

OpenPage = Callable[..., Page]


@pytest.fixture(scope="session")
def site(make_gateway: MakeGateway, upstream_process: ScriptedUpstream) -> RunningGateway:
    """A gateway with people and some use: good answers, one that fails and one that breaks off."""
    running = make_gateway(upstream=upstream_process, keys=("sk-one", "sk-two"))
    running.command("shell", "--verbosity", "0", "-c", MAKE_PEOPLE.format(password=PASSWORD))
    for model in ("glm-5", "qwen-4", "script/status=400", "script/cut,frame=3"):
        ask(running, model)
    running.settled(4)
    return running


def ask(site: RunningGateway, model: str, *, stream: bool = True) -> int:
    """Send one message, read the whole answer and return its status."""
    body: dict[str, Any] = {"model": model, "max_tokens": 50, "stream": stream}
    body["messages"] = [{"role": "user", "content": "Hello"}]
    headers = {"x-api-key": site.token}
    answer = httpx.post(f"{site.base_url}/v1/messages", json=body, headers=headers, trust_env=False, timeout=20)
    return answer.status_code


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not os.access(CHROMIUM, os.X_OK):
        pytest.skip(f"no browser at {CHROMIUM}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Browser, site: RunningGateway) -> Iterator[OpenPage]:
    """Open pages as somebody who logs in first; what the console complains of fails the test."""
    contexts = []
    complaints: list[str] = []

    def open_as(name: str, path: str, *, scheme: Any = "light", width: int = 1440, **options: Any) -> Page:
        context = browser.new_context(
            base_url=site.base_url, color_scheme=scheme, viewport={"width": width, "height": 900}, **options
        )
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if is_complaint(said) else None)
        page.goto(f"/admin/login/?next={path}")
        page.fill("input[name=username]", name)
        page.fill("input[name=password]", PASSWORD)
        page.click("button[type=submit]")
        page.wait_for_url(f"**{path}")
        return page

    yield open_as
    for context in contexts:
        context.close()
    assert not complaints


def is_complaint(said: Any) -> bool:
    """Tell whether a line of the console is a fault of ours; browsers ask for an icon that there isn't."""
    return said.type == "error" and "favicon" not in (said.location or {}).get("url", "")


def serious_faults(page: Page) -> list[str]:
    """Run axe on the page; return what it finds serious or worse."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{fault['id']}: {node['target']} {node['html'][:160]}"
        for fault in found["violations"]
        if fault["impact"] in ("serious", "critical")
        for node in fault["nodes"]
    ]
