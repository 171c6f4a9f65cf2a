import subprocess
import sys
from pathlib import Path

from keys.pool.tables import answers_table, rules_table
from keys.pool.verdicts import RULES

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_shows_the_tables_that_decide() -> None:
    page = (ROOT / "docs" / "pool.md").read_text(encoding="utf-8")

    assert rules_table() in page
    assert answers_table() in page
    checked = subprocess.run([sys.executable, "scripts/render_pool", "--check"], cwd=ROOT, check=False)
    assert checked.returncode == 0


def test_every_cause_has_a_row_and_every_row_the_same_cells() -> None:
    rows = rules_table().splitlines()

    assert len(rows) == 2 + len(RULES)
    assert len({row.replace("\\|", "").count("|") for row in rows}) == 1
