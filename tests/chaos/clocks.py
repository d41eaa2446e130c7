"""Shifted clocks for tests; skipped where no C compiler is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.harness.clocks import Clocks
from bench.harness.errors import BenchError


@pytest.fixture
def clocks(tmp_path: Path) -> Clocks:
    """Makes clocks; see :class:`Clocks`."""
    try:
        return Clocks(tmp_path)
    except BenchError as error:
        pytest.skip(str(error))
