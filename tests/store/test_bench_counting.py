"""What counters cost is measured against a script that lacks one line, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from bench.experiments.scrape.counting import without_counters
from bench.harness.errors import BenchError
from tq_celery.store.scripts import SCRIPTS


def test_the_script_without_counters_has_one_line_less(client: Any) -> None:
    script = SCRIPTS["complete"]
    bare = without_counters(script)
    gone = set(script.text.splitlines()) - set(bare.text.splitlines())
    assert len(gone) == 1
    assert "note_end(" in gone.pop()
    assert client.script_load(bare.text) == bare.sha


def test_a_script_that_notes_no_end_is_refused() -> None:
    with pytest.raises(BenchError, match="script admit does not note ends"):
        without_counters(SCRIPTS["admit"])
