"""Lateness is read from whole lines, without the task that only opened the connection."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.experiments.delaydrift.run import lateness


def test_lateness_in_ms_least_first(tmp_path: Path) -> None:
    file = tmp_path / "timings"
    file.write_text("0.0 4.0 4.0\n10.0 10.003 10.004\n11.0 10.999 11.0\n12.0 12.5")
    assert lateness(file) == pytest.approx([-1.0, 3.0])
    file.write_text("")
    assert lateness(file) == []
