"""Upstreams, their keys and client tokens, as an administrator makes them."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.cast import Cast
from tests.browser.conftest import OpenPage, ask, ask_until_known, records_of
from tests.browser.looks import faults_of
from tests.gateway import RunningGateway
from tests.upstream import ScriptedUpstream

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

TOKEN = re.compile(r"brg_[0-9A-Za-z]{39}")


def test_an_upstream_gets_its_keys_by_pasting(
    open_page: OpenPage, site: RunningGateway, cast: Cast, upstream_process: ScriptedUpstream
) -> None:
    name = f"pasted-{cast.tag}"
    secrets = [f"sk-pasted-{cast.tag}-secret-000{number}" for number in (1, 2)]
    page = open_page(cast.admin, "/admin/keys/upstream/add/")
    page.locator("#id_name").fill(name)
    page.locator("#id_base_url").fill(upstream_process.base_url)
    page.get_by_role("button", name="Save and continue editing").click()
    page.get_by_role("link", name="Paste keys").first.click()
    page.locator("#id_secrets").fill(f"# ours\nACME_KEY={secrets[0]}\n\n{secrets[1]}\n{secrets[1]}\n")
    page.get_by_role("button", name="Add", exact=True).click()

    expect(page.get_by_text("key-1 (…0001): added")).to_be_visible()
    expect(page.get_by_text("key-2 (…0002): added")).to_be_visible()
    expect(page.get_by_text("1 known already: left out")).to_be_visible()
    for path in ("", "/admin/keys/credential/", "/admin/members/auditentry/"):
        page.goto(path or page.url)
        assert not any(secret in page.content() for secret in secrets)
    (row,) = site.sql(
        "SELECT count(*) AS n FROM keys_credential c JOIN keys_upstream u ON u.id = c.upstream_id "
        "WHERE u.name = %s AND c.sealed_secret <> ''",
        name,
    )
    assert row["n"] == 2


def test_an_address_that_nobody_may_call_is_refused(open_page: OpenPage, cast: Cast) -> None:
    page = open_page(cast.admin, "/admin/keys/upstream/add/")
    page.locator("#id_name").fill(f"inside-{cast.tag}")
    page.locator("#id_base_url").fill("https://169.254.169.254/v1")
    page.get_by_role("button", name="Save", exact=True).click()

    expect(page.locator(".field-base_url")).to_contain_text("leads to a private or reserved address")
    assert page.url.endswith("/add/")


def test_an_administrator_issues_a_token_for_somebody(open_page: OpenPage, site: RunningGateway, cast: Cast) -> None:
    page = open_page(cast.admin, "/admin/keys/clienttoken/add/")
    page.get_by_role("combobox", name="User").click()
    page.locator(".select2-search__field").fill(cast.lead.name)
    page.get_by_role("option", name=cast.lead.name, exact=True).click()
    page.locator("#id_name").fill(f"desk-{cast.tag}")
    page.locator("#id_models").fill("glm-5")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("never again")).to_be_visible()
    token = TOKEN.findall(page.locator("pre[data-copy='the token']").inner_text())[0]

    assert faults_of(page) == []

    ask_until_known(site, "glm-5", token)
    assert ask(site, "qwen-4", token).status_code == 403
    page.goto(f"/admin/keys/clienttoken/?q=desk-{cast.tag}")
    expect(page.get_by_text(f"desk-{cast.tag}")).to_be_visible()
    assert token not in page.content()
    (record,) = records_of(site, cast.lead)
    assert (record["token_name"], record["state"]) == (f"desk-{cast.tag}", "ok")
