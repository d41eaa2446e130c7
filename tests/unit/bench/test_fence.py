"""The inert scripts of the ceiling experiment are the library's own, less the check."""

from __future__ import annotations

import difflib
from dataclasses import replace

import pytest

from bench.experiments.ceiling.fence import CHECK, without_fence
from bench.harness.errors import BenchError
from tq_celery.store.scripts import SCRIPTS


@pytest.mark.parametrize("name", ["admit", "dispatch"])
def test_only_the_check_and_its_helper_are_left_out(name: str) -> None:
    live, inert = SCRIPTS[name], without_fence(SCRIPTS[name])
    changes = [
        line
        for line in difflib.ndiff(live.text.splitlines(), inert.text.splitlines())
        if line[0] in "+-"
    ]
    assert all(line.startswith("-") for line in changes), "nothing is added"
    assert any("fenced(epoch)" in line for line in changes)
    assert "fenced" not in inert.text
    assert len(changes) < 30
    assert inert.sha != live.sha


def test_a_script_without_the_expected_check_is_refused() -> None:
    script = SCRIPTS["admit"]
    changed = replace(script, text=script.text.replace(CHECK, CHECK.replace("refusal", "no")))
    with pytest.raises(BenchError, match="admit has no fence"):
        without_fence(changed)
