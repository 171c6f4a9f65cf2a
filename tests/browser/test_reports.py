"""Reports: every group with a filter, and both exports, which hold what the page shows."""

import csv
import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from tests.browser.cast import Cast, Company
from tests.browser.conftest import OpenPage, a_request, exported
from tests.gateway import RunningGateway
from usage.reports import DIMENSIONS, SPANS
from usage.templatetags.figures import figure, usd

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

REPORT = "/admin/usage/reports/"
FORM, ROWS = "form.bridge-form[method=get]", "section[aria-labelledby=rows-title]"
#: The filters of the form, with what the made-up team has much of.
FILTERS = {"team": "platform", "user": "mia", "model": "glm-5", "credential": "acme-1", "state": "ok"}
#: Each group with a filter on something else, in turns.
PAIRS = [
    (group, next(name for name in turn if name != group))
    for turn in [cycle(FILTERS)]
    for group in (*SPANS, *DIMENSIONS)
]
MOMENTS = {"hour": "%Y-%m-%d %H:%M", "day": "%Y-%m-%d, %a", "week": "week of %Y-%m-%d", "month": "%Y-%m"}
#: Large numbers are shown in few characters; the whole one is the cell's title.
TEXTS = """rows => rows.map(
    row => [...row.cells].map(cell => cell.title || cell.innerText.trim().replace(/\\s+/g, " "))
)"""


def days_until_yesterday(count: int) -> tuple[str, str]:
    """Return a time that nobody's requests fall into any more."""
    today = timezone.now().date()
    return str(today - timedelta(days=count)), str(today - timedelta(days=1))


def ask_for(page: Page, **choices: str) -> None:
    """Fill in the form; a choice is a value or what people read."""
    for name in ("from", "to"):
        page.locator(f"{FORM} input[name={name}]").fill(choices.pop(name))
    for name, choice in choices.items():
        page.locator(f"{FORM} select[name={name}]").select_option(choice)
    page.get_by_role("button", name="Show").click()
    expect(page).to_have_url(re.compile(rf"by={choices['by']}\b"))
    expect(page.locator(f"{ROWS} tbody tr").first).to_be_visible()


def shown(page: Page, part: str = "tbody") -> list[list[str]]:
    rows: list[list[str]] = page.locator(f"{ROWS} {part} tr").evaluate_all(TEXTS)
    return rows


def both_exports(page: Page, folder: Path) -> list[dict[str, Any]]:
    """Return the rows of the JSON file, when those of the CSV file are the same."""
    rows: list[dict[str, Any]] = json.loads(exported(page, "JSON", folder))["rows"]
    lines = list(csv.DictReader(exported(page, "CSV", folder).splitlines()))
    assert [{name: as_cell(name, value) for name, value in row.items()} for row in rows] == lines
    return rows


def as_cell(name: str, value: object) -> str:
    text = "" if value is None else str(value)
    return str(datetime.fromisoformat(text)) if name in SPANS else text


def as_shown(row: Mapping[str, Any], *groups: str) -> list[str]:
    """Write a row of an export as the page does."""
    named = [f"{datetime.fromisoformat(row[g]):{MOMENTS[g]}}" if g in SPANS else row[g] or "(none)" for g in groups]
    errors = f" {figure(row['error_share'], 'share')}" if row["errors"] else ""
    return [
        *named,
        figure(row["requests"]),
        figure(row["attempts"]),
        f"{figure(row['errors'])}{errors}",
        f"{usd(row['cost_nano'])}{' + ?' if row['unpriced'] else ''}",
        *(figure(row[f"{kind}_tokens"]) for kind in ("input", "cache_read", "cache_write", "output")),
        figure(row["cache_share"], "share"),
        figure(row["ttft_p50_ms"], "ms"),
        figure(row["ttft_p95_ms"], "ms"),
        figure(row["estimated_share"], "share"),
    ]


@pytest.mark.parametrize(("group", "kept"), PAIRS)
def test_a_report_with_a_filter_is_what_its_exports_hold(
    open_page: OpenPage, site: RunningGateway, company: Company, tmp_path: Path, group: str, kept: str
) -> None:
    first, last = days_until_yesterday(7 if group == "hour" else 30)
    page = open_page(company.walker, REPORT)
    ask_for(page, **{"from": first, "to": last, "by": group, "then": "", kept: FILTERS[kept]})

    rows = both_exports(page, tmp_path)

    assert sorted(shown(page)) == sorted(as_shown(row, group) for row in rows)
    query = f"SELECT count(*) AS requests FROM usage_usagerecord WHERE attempt = 1 AND {DIMENSIONS[kept][1]} = %s"  # noqa: S608  (a column of ours)
    (whole,) = site.sql(f"{query} AND started_at >= %s AND started_at < %s::date + 1", FILTERS[kept], first, last)
    assert sum(row["requests"] for row in rows) == whole["requests"] > 0
    assert shown(page, "tfoot")[0][:2] == ["in all", figure(whole["requests"])]


@pytest.mark.parametrize(
    "path", [f"{REPORT}?by=day&then=model", f"{REPORT}?by=user&then=client", "/admin/usage/usagerecord/"]
)
def test_a_desk_shows_all_columns(
    open_page: OpenPage, site: RunningGateway, cast: Cast, company: Company, path: str
) -> None:
    a_request(site, cast.member, f"{'long' * 30}{cast.tag}")
    page = open_page(company.walker, path)

    table = page.locator(".bridge-many, #result_list")

    assert len(table.locator("thead th").all()) > 10
    assert table.evaluate("table => table.parentElement.scrollWidth - table.parentElement.clientWidth") == 0


def test_large_numbers_are_short(open_page: OpenPage, company: Company) -> None:
    page = open_page(company.walker, f"{REPORT}?by=month")
    row = page.locator(f"{ROWS} tfoot tr")

    read = row.locator("td").nth(5)

    assert re.fullmatch(r"\d+\.\dM", read.inner_text())
    assert re.fullmatch(r"\d{1,3}(,\d{3}){2}", str(read.get_attribute("title")))


def test_a_click_leads_from_two_groups_to_one_of_them(open_page: OpenPage, company: Company, tmp_path: Path) -> None:
    first, last = days_until_yesterday(30)
    page = open_page(company.walker, REPORT)
    ask_for(page, **{"from": first, "to": last, "by": "client", "then": "state"})
    rows = both_exports(page, tmp_path)
    assert sorted(shown(page)) == sorted(as_shown(row, "client", "state") for row in rows)
    whole = shown(page, "tfoot")

    page.locator(f"{ROWS} tbody").get_by_role("link", name="claude-cli").first.click()

    expect(page).to_have_url(re.compile(r"client=claude-cli"))
    (theirs,) = [sum(row["requests"] for row in rows if row["client"] == "claude-cli")]
    expect(page.locator(f"{ROWS} tfoot td").first).to_have_text(figure(theirs))
    page.get_by_title("Show all again").click()
    expect(page.locator(f"{ROWS} tfoot td").first).to_have_text(whole[0][1])


def test_a_report_is_saved_for_the_team_opened_again_and_deleted(
    open_page: OpenPage, site: RunningGateway, cast: Cast
) -> None:
    name = f"Errors of {cast.tag}"
    page = open_page(cast.lead, f"{REPORT}?by=user&then=error&state=upstream_error")
    page.get_by_text("Saved reports").click()
    page.get_by_label("Save this one as").fill(name)
    page.get_by_label("Share with").select_option(cast.team)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text(f"The report is saved as {name}.")).to_be_visible()
    expect(page.locator(".bridge-chips li").filter(has_text=name)).to_contain_text(f"shared with {cast.team}")

    page.goto(REPORT)
    page.get_by_role("link", name=name).click()
    expect(page.locator("select[name=by]")).to_have_value("user")
    expect(page.locator("select[name=then]")).to_have_value("error")
    expect(page.locator("select[name=state]")).to_have_value("upstream_error")
    assert open_page(cast.admin, REPORT).get_by_role("link", name=name).count() == 0

    page.get_by_role("button", name=f"Delete the saved report {name}").click()
    expect(page.get_by_role("link", name=name)).to_have_count(0)


def test_a_lead_reports_the_own_team_alone(
    open_page: OpenPage, site: RunningGateway, cast: Cast, tmp_path: Path
) -> None:
    model = f"own-{cast.tag}"
    a_request(site, cast.member, model)
    page = open_page(cast.lead, f"{REPORT}?by=user&then=model")

    rows = both_exports(page, tmp_path)

    assert [(row["user"], row["model"], row["requests"]) for row in rows] == [(cast.member.name, model, 1)]
    assert shown(page) == [as_shown(row, "user", "model") for row in rows]
    assert page.locator("select[name=user] option").all_inner_texts() == ["all", cast.member.name]
