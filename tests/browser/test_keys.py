"""Upstreams, their keys and client tokens, as an administrator makes them."""

import re
import time

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenPage, ask
from tests.gateway import RunningGateway
from tests.upstream import ScriptedUpstream

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

TOKEN = re.compile(r"brg_[0-9A-Za-z]{39}")
SECRETS = ("sk-pasted-secret-0001", "sk-pasted-secret-0002")


def test_an_upstream_gets_its_keys_by_pasting(
    open_page: OpenPage, site: RunningGateway, upstream_process: ScriptedUpstream
) -> None:
    page = open_page("root", "/admin/keys/upstream/add/")
    page.locator("#id_name").fill("pasted")
    page.locator("#id_base_url").fill(upstream_process.base_url)
    page.get_by_role("button", name="Save and continue editing").click()
    page.get_by_role("link", name="Paste keys").first.click()
    page.locator("#id_secrets").fill(f"# ours\nACME_KEY={SECRETS[0]}\n\n{SECRETS[1]}\n{SECRETS[1]}\n")
    page.get_by_role("button", name="Add", exact=True).click()

    expect(page.get_by_text("key-1 (…0001): added")).to_be_visible()
    expect(page.get_by_text("key-2 (…0002): added")).to_be_visible()
    expect(page.get_by_text("1 known already: left out")).to_be_visible()
    for path in ("", "/admin/keys/credential/", "/admin/members/auditentry/"):
        page.goto(path or page.url)
        assert not any(secret in page.content() for secret in SECRETS)
    (row,) = site.sql(
        "SELECT count(*) AS n FROM keys_credential c JOIN keys_upstream u ON u.id = c.upstream_id "
        "WHERE u.name = 'pasted' AND c.sealed_secret <> ''"
    )
    assert row["n"] == 2


def test_an_address_that_nobody_may_call_is_refused(open_page: OpenPage) -> None:
    page = open_page("root", "/admin/keys/upstream/add/")
    page.locator("#id_name").fill("inside")
    page.locator("#id_base_url").fill("https://169.254.169.254/v1")
    page.get_by_role("button", name="Save", exact=True).click()

    expect(page.locator(".field-base_url")).to_contain_text("leads to a private or reserved address")
    assert page.url.endswith("/add/")


def test_an_administrator_issues_a_token_for_somebody(open_page: OpenPage, site: RunningGateway) -> None:
    page = open_page("root", "/admin/keys/clienttoken/add/")
    page.get_by_role("combobox", name="User").click()
    page.locator(".select2-search__field").fill("char")
    page.get_by_role("option", name="charlie").click()
    page.locator("#id_name").fill("from the desk")
    page.locator("#id_models").fill("glm-5")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("never again")).to_be_visible()
    token = TOKEN.findall(page.locator("pre[data-copy='the token']").inner_text())[0]

    own = RunningGateway(**{**vars(site), "token": token})
    until = time.monotonic() + 5
    while ask(own, "glm-5") != 200:  # the server notices a new token within a second
        assert time.monotonic() < until
        time.sleep(0.1)
    assert ask(own, "qwen-4") == 403
    site.settled()
    (row,) = site.sql("SELECT count(*) AS n FROM usage_usagerecord WHERE token_name = 'from the desk' AND state = 'ok'")
    assert row["n"] == 1
    page.goto("/admin/keys/clienttoken/")
    expect(page.get_by_text("from the desk")).to_be_visible()
    assert token not in page.content()
