"""Faults of the server, from the command line: one that is waited out, one that empties it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench.experiments.serverfaults import command

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def test_faults_of_the_server(tmp_path: Path) -> None:
    """Nothing is lost that the server kept, and nothing is settled or started twice.

    The times are for an otherwise idle machine, so they are not judged here.
    """
    faults = ("kill-always", "flushall", "maxmemory")
    file, chart = tmp_path / "faults.json", tmp_path / "faults.png"
    words = ["--server", "valkey", "--repetitions", "1", "--save", str(file), "--chart", str(chart)]
    done = CliRunner().invoke(command, [*words, *(f"--fault={name}" for name in faults)])
    assert done.exit_code in (0, 1), done.output
    result: dict[str, Any] = json.loads(file.read_text())
    arms = result["arms"]
    assert tuple(arms) == tuple(sorted(faults))
    for name, arm in arms.items():
        (trial,) = arm["trials"]
        assert trial["accepted"] > 400, name
        assert trial["dispatch"] is not None, name
        assert trial["settlement"] is not None, name
        assert (trial["violations"], trial["trouble"]) == ([], []), name
        assert (arm["lost_after"], arm["duplicates"]) == (0, 0), name
        assert all(lines["tracebacks"] == 0 for lines in trial["log"].values()), name
    for name in ("kill-always", "maxmemory"):
        assert (arms[name]["lost"], arms[name]["started_again"]) == (0, 0), name
    # the fault took place
    assert arms["flushall"]["lost"] > 0
    assert arms["kill-always"]["trials"][0]["lasted"] >= 4.0
    (full,) = arms["maxmemory"]["trials"]
    assert full["settled_during"] >= full["ended_during"] > 0
    assert full["dispatched_during"] == 0
    assert chart.stat().st_size > 10_000
