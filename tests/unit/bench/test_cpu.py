"""What the processes of a cell used, and what was used beside it."""

from __future__ import annotations

import os
import time

import pytest

from bench.harness.fleet import Cpu
from bench.harness.process import busy_seconds


def test_what_is_nobodys_here_was_used_by_others() -> None:
    before = Cpu(1.0, 1.0, 1.0, 1.0, 50.0, 1.0, 100.0, 10.0)
    after = Cpu(3.0, 2.0, 2.5, 1.5, 80.0, 2.0, 110.0, 20.0)
    used = after.since(before)
    assert (used.worker, used.scheduler, used.server, used.producer) == (2.0, 1.0, 1.5, 0.5)
    assert used.server_us == 30.0
    assert used.others == pytest.approx((10.0 - 6.0) / 10.0)
    assert after.since(before._replace(machine=108.0)).others == 0.0
    assert Cpu().others is None


def test_the_machine_is_busy_with_processes_and_with_what_was_taken_away() -> None:
    """Seen to fail: with the idle time counted as well."""
    stat = "cpu  100 20 30 9999 50 70 80 3 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n"
    assert busy_seconds(stat) == 153 / os.sysconf("SC_CLK_TCK")
    assert busy_seconds("") == 0.0


def test_this_process_keeps_the_machine_busy() -> None:
    before, began = busy_seconds(), time.process_time()
    while time.process_time() - began < 0.3:
        pass
    assert busy_seconds() - before >= 0.2
