"""Every row of the table of Celery's features names a test that exists.

Seen to fail with a row whose test was renamed, and with a row without a test.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "celery-features.md"
VERDICTS = {"works", "differs", "better", "refused"}


def rows() -> list[list[str]]:
    found = []
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith("|") and not line.startswith(("| feature |", "|---")):
            found.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return found


def test_every_row_has_a_verdict_and_a_test_that_exists() -> None:
    wrong = []
    for row in rows():
        if len(row) != 4 or row[1].strip("*") not in VERDICTS:
            wrong.append(f"{row[0]}: needs four cells and one of {sorted(VERDICTS)}")
            continue
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", row[3])
        if not named:
            wrong.append(f"{row[0]}: names no test")
        for file, test in named:
            path = ROOT / file
            if not path.is_file() or not re.search(rf"def {test}\(", path.read_text("utf-8")):
                wrong.append(f"{row[0]}: no test {file}::{test}")
    assert not wrong, "\n".join(wrong)
