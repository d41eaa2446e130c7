"""A failover of the server in short: what counting epochs alone would do, and what is done."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.experiments.storefault.cli import command

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_an_epoch_is_given_twice_by_the_counter_alone(tmp_path: Path) -> None:
    """The plain arm is the guard taken away: there two leaders get the same number."""
    chart = tmp_path / "storefault.png"
    done = CliRunner().invoke(
        command,
        ["--trials", "1", "--held", "3", "--arm", "cut-plain", "--arm", "cut",
         "--server", "valkey", "--chart", str(chart), "--json"],
        catch_exceptions=False,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["passed"]
    plain, shipped = result["arms"]["cut-plain"], result["arms"]["cut"]
    assert (plain["epochs_given_twice"], shipped["epochs_given_twice"]) == (1, 0)
    for arm in (plain, shipped):
        assert arm["destroyed"] > 0
        assert arm["completed"] >= arm["accepted"] - arm["destroyed"] > 0
    assert chart.stat().st_size > 10_000
