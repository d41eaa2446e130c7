"""Tables and figures of the documentation that are made of data are what the data says."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.digest.marks import fill

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


@pytest.mark.parametrize(
    "page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.relative_to(DOCS).as_posix()
)
def test_a_page_is_what_its_data_says(page: Path) -> None:
    """Made anew by ``python -m bench tables PAGE``. Seen to fail: with one digit changed."""
    text = page.read_text("utf-8")
    assert fill(text, DOCS / "data") == text
