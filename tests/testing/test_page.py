"""The blocks of ``docs/howto/test-your-tasks.md`` are a project whose suite passes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.testing.suite import run_suite

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "test-your-tasks.md"
BLOCK = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_page_on_testing_is_a_suite_that_passes(tmp_path: Path) -> None:
    text = PAGE.read_text("utf-8")
    files: dict[str, str] = {}
    for name, block in BLOCK.findall(text):
        files[name] = files.get(name, "") + block
    assert len(BLOCK.findall(text)) == text.count("```python\n")
    files["test_message.py"] = """
import pytest
from shop import checkout

def test_the_message(tq_recorder):
    checkout("acme", 17)
    with pytest.raises(AssertionError) as failure:
        tq_recorder.assert_submitted("shop.invoice", tenant="beta", times=1)
    print(failure.value)
"""
    run = run_suite(tmp_path, files, "-s", "-p", "no:celery", "-p", "no:valkey")
    assert "5 passed" in run.text, run.text
    (message,) = re.findall(r"^```text\nAssertionError: (.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert message in run.text
