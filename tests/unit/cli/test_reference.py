"""The reference of the command says what the command says."""

from __future__ import annotations

import runpy
from pathlib import Path

FOLDER = Path(__file__).parents[3] / "docs" / "reference"


def test_the_page_is_current() -> None:
    generator = runpy.run_path(str(FOLDER / "generate_cli.py"))
    assert (FOLDER / "cli.md").read_text("utf-8") == generator["text"](), (
        "run: python docs/reference/generate_cli.py"
    )
