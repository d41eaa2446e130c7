"""Loops wait, fail, recover and stop."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from tests.waiting import BUSY
from tq_celery.errors import StoreUnavailableError
from tq_celery.scheduler.loop import LONGEST_BACKOFF, Loop, Quiet
from tq_celery.scheduler.stats import LoopStats


class Counting(Loop):
    name = "counting"

    def __init__(self, rest: float = 60.0, failing: int = 0) -> None:
        super().__init__(LoopStats(), Quiet())
        self.rest = rest
        self.failing = failing
        self.rounds = 0
        self.finished = False
        self.recovered = 0
        self.began = threading.Event()

    def run_once(self) -> float:
        self.rounds += 1
        self.began.set()
        if self.failing:
            self.failing -= 1
            raise StoreUnavailableError("counting", "away")
        return self.rest

    def recover(self) -> None:
        self.recovered += 1

    def finish(self) -> None:
        self.finished = True


@pytest.fixture
def started():
    loops: list[Loop] = []

    def start(loop: Counting) -> Counting:
        loop.start()
        loops.append(loop)
        return loop

    yield start
    for loop in loops:
        loop.stop()
        assert loop.join(30.0)


def test_a_wake_up_ends_the_rest(started, wait_until) -> None:
    loop = started(Counting())
    wait_until(lambda: loop.rounds == 1, "the first round")
    loop.wake()
    wait_until(lambda: loop.rounds == 2, "the second round")


def test_a_wake_up_during_a_round_is_not_lost(started, wait_until) -> None:
    class Waking(Counting):
        def run_once(self) -> float:
            if self.rounds < 3:
                self.wake()
            return super().run_once()

    loop = started(Waking())
    wait_until(lambda: loop.rounds == 4, "one round per wake-up")


def test_stop_ends_a_rest_at_once_and_finishes(started) -> None:
    loop = started(Counting())
    assert loop.began.wait(30.0)
    before = time.monotonic()
    loop.stop()
    assert loop.join(30.0)
    assert time.monotonic() - before < BUSY
    assert loop.finished


def test_failures_back_off_are_counted_and_end(started, wait_until, caplog) -> None:
    caplog.set_level(logging.WARNING)
    began = time.monotonic()
    loop = started(Counting(failing=4))
    wait_until(lambda: loop.stats.last_success, "a success after four failures")
    assert (loop.stats.failures, loop.stats.consecutive_failures) == (4, 0)
    assert loop.recovered == 4
    # one line a second at most for each kind of failure, without a traceback for an outage
    failed = "round failed: loop=counting"
    lines = [record for record in caplog.records if failed in record.message]
    assert 1 <= len(lines) <= 1 + time.monotonic() - began
    assert lines[0].exc_info is None


def test_a_wake_up_does_not_shorten_a_back_off(started, wait_until) -> None:
    loop = started(Counting(failing=1_000_000))
    wait_until(lambda: loop.stats.failures >= 5, "the longest back-off")
    rounds, since = loop.rounds, time.monotonic()
    while (past := time.monotonic() - since) < LONGEST_BACKOFF:
        loop.wake()
        time.sleep(0.005)
    assert loop.rounds - rounds <= 1 + past / LONGEST_BACKOFF


def test_a_loop_outlives_whatever_a_round_raises(started, wait_until, caplog) -> None:
    class Broken(Counting):
        def run_once(self) -> float:
            if self.rounds == 0:
                self.rounds += 1
                raise KeyError("a fault of ours")
            return super().run_once()

    loop = started(Broken())
    wait_until(lambda: loop.stats.last_success, "a success after the fault")
    assert any(record.exc_info for record in caplog.records)


def test_quiet_lets_one_line_a_second_through_and_counts_the_rest() -> None:
    quiet = Quiet(interval=60)
    assert quiet.admit("a") == 0
    assert quiet.admit("a") is None
    assert quiet.admit("b") == 0
    quiet = Quiet(interval=0)
    assert [quiet.admit("a") for _ in range(3)] == [0, 0, 0]
