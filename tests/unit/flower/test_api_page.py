"""The page on Flower has every path of the API and every column, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from flower.options import default_options

from tq_celery.flower.api import ACTIONS
from tq_celery.flower.loader import TEMPLATES
from tq_celery.flower.serve import handlers
from tq_celery.flower.snapshot import ORDERS

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "use-flower.md"


def test_every_path_is_on_the_page() -> None:
    """Seen to fail with an action that the page did not have."""
    text = PAGE.read_text("utf-8")
    described = re.findall(r"^\| `(GET|POST) /api/tq/(\S+)` \|", text, re.MULTILINE)
    readings = {word for verb, word in described if verb == "GET"}
    assert {word for verb, word in described if verb == "POST"} == ACTIONS.keys()
    patterns = [each.regex for each in handlers(default_options, None)]
    for word in readings:
        path = "/api/tq/" + word.replace("ENTRY", "1700000000000-0")
        assert any(pattern.match(path) for pattern in patterns), path
    (listed,) = [each.regex.pattern for each in handlers(default_options, None)
                 if "overview" in each.regex.pattern]  # fmt: skip
    words = re.search(r"\((.*)\)", listed)
    assert words
    assert {*words[1].split("|"), "dead/ENTRY"} == readings


def test_every_order_is_on_the_page() -> None:
    said = re.search(r"take `sort` \((.*?)\)", PAGE.read_text("utf-8"))
    assert said
    assert tuple(re.findall(r"`(\w+)`", said[1])) == ORDERS


def test_every_column_is_on_the_page() -> None:
    """Seen to fail with a column of the page's template that had another name there."""
    template = (TEMPLATES / "scheduler.html").read_text("utf-8")
    shown = [re.findall(r"<th\b[^>]*>([^<]+)</th>", table)
             for table in template.split("<table")[1:]]  # fmt: skip
    tables = PAGE.read_text("utf-8").split("| column | what it says |\n|---|---|\n")[1:]
    listed = [re.findall(r"^\| ([^|`]+) \|", table.partition("\n\n")[0], re.MULTILINE)
              for table in tables]  # fmt: skip
    assert len(shown) == 3
    assert listed == shown
