"""What the repetitions experiment runs, without running it."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from bench.experiments.repetitions import cli
from bench.harness.cell import Cell


@pytest.mark.parametrize(
    ("arguments", "repetitions"),
    [([], 25), (["--repetitions", "3"], 3), (["--profile", "full"], 25)],
)
def test_two_kinds_of_cells_many_times_over(
    arguments: list[str], repetitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[Any] = []
    monkeypatch.setattr(cli, "run_and_tell", lambda *given: planned.extend(given))
    result = CliRunner().invoke(cli.command, arguments)
    assert result.exit_code == 0, result.output
    experiment, cells, profile = planned[:3]
    assert experiment == "repetitions"
    assert profile.repetitions == repetitions
    assert cells == [
        Cell(arm, workload, 1.25, "sleep", repetition)
        for repetition in range(repetitions)
        for workload, arm in (("multi_tenant", "tq-wfq"), ("heavy_tailed", "tq-edf"))
    ]
