"""Submission keeps to its schedule whatever it is sent to, and the run's entry is ahead of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import pytest

from tq_celery.errors import BulkError, StoreUnavailableError
from tq_celery.produce.claim import Claim
from tq_celery.produce.pace import BATCH, Submitted, submit
from tq_celery.workloads.work import Work


class Notes(Claim):
    """A claim that keeps what would be written."""

    def __init__(self, start: int = 0) -> None:
        self.start = start
        self.notes: list[tuple[int, int]] = []
        self.signs = 0
        self.released: tuple[int, int] | None = None

    def note(self, sent: int, upto: int) -> None:
        self.notes.append((sent, upto))

    def sign(self, sent: int, upto: int) -> None:
        self.signs += 1

    def release(self, sent: int, upto: int) -> None:
        self.released = (sent, upto)


class Sink:
    """Takes batches; ``pause`` seconds each, and fails before batch number ``fails``."""

    def __init__(self, pause: float = 0.0, fails: int = -1) -> None:
        self.batches: list[list[int]] = []
        self.times: list[float] = []
        self._pause, self._fails = pause, fails
        self.ahead: list[bool] = []
        self.claim: Notes | None = None

    def __call__(self, works: Sequence[Work]) -> None:
        if len(self.batches) == self._fails:
            raise StoreUnavailableError("submit", "it went away")
        if self.claim is not None:
            self.ahead.append(bool(self.claim.notes) and self.claim.notes[-1][1] > works[-1].job)
        self.times.append(time.monotonic())
        self.batches.append([work.job for work in works])
        time.sleep(self._pause)


def works(count: int, every: float) -> list[Work]:
    return [Work(job, job * every, 0.0, "a", 1.0) for job in range(count)]


def run(tasks: list[Work], claim: Notes, sink: Sink, halt: threading.Event | None = None):
    return submit(tasks, claim, sink, halt or threading.Event(), lambda done: None)


def test_every_task_is_sent_once_in_order_and_not_before_its_time() -> None:
    sink, claim = Sink(), Notes()
    began = time.monotonic()
    done = run(works(20, 0.01), claim, sink)
    assert [job for batch in sink.batches for job in batch] == list(range(20))
    for at, batch in zip(sink.times, sink.batches, strict=True):
        assert at - began >= batch[-1] * 0.01 - 1e-3
    assert done.sent == 20
    assert len(done.lags) == 20
    assert min(done.lags) >= 0
    assert claim.released == (20, 20)


def test_a_slow_server_makes_lag_and_no_slower_schedule() -> None:
    """What has become due meanwhile goes in the next batch; seen to fail with one task a call."""
    sink = Sink(pause=0.05)
    done = run(works(100, 0.002), Notes(), sink)
    assert len(sink.batches) < 50
    assert max(done.lags) > 0.03


def test_a_batch_is_bounded() -> None:
    sink = Sink()
    run(works(3 * BATCH + 1, 0.0), Notes(), sink)
    assert [len(batch) for batch in sink.batches] == [BATCH, BATCH, BATCH, 1]


def test_the_entry_is_ahead_of_every_batch() -> None:
    """Else a kill could leave tasks that nobody knows of; seen to fail without it."""
    claim, sink = Notes(), Sink()
    sink.claim = claim
    run(works(3000, 0.0001), claim, sink)
    assert all(sink.ahead)
    assert len(claim.notes) < 20, "not with every batch"


def test_a_producer_that_never_pauses_shows_that_it_lives() -> None:
    """Seen to fail with signs in pauses alone: slow batches looked like a dead producer."""
    claim = Notes()
    run(works(3 * BATCH, 0.0), claim, Sink())
    assert claim.signs == 3


def test_who_goes_on_starts_at_once_and_keeps_the_distances() -> None:
    sink = Sink()
    began = time.monotonic()
    done = run(works(1000, 0.01), Notes(start=990), sink)
    assert sink.batches[0][0] == 990
    assert sink.times[0] - began < 5.0, "not after the 9.9 s that are past"
    assert (done.first, done.sent) == (990, 1000)


def test_nothing_is_left_of_a_whole_run() -> None:
    sink, claim = Sink(), Notes(start=5)
    done = run(works(5, 1.0), claim, sink)
    assert (sink.batches, done.lags, claim.released) == ([], [], (5, 5))


def test_a_halt_ends_it_between_two_batches() -> None:
    halt, claim = threading.Event(), Notes()
    seen: list[int] = []

    def look(done: Submitted) -> None:
        seen.append(done.sent)
        if done.sent >= 3:
            halt.set()

    done = submit(works(1000, 0.01), claim, Sink(), halt, look)
    assert 3 <= done.sent < 1000
    assert claim.released == (done.sent, done.sent), "what was sent is known to the task"


def test_what_was_refused_as_a_whole_is_known_not_to_be_there() -> None:
    claim = Notes()
    errors: dict[int, Exception] = {0: ValueError("no"), 1: ValueError("no")}

    def refuse(tasks: Sequence[Work]) -> None:
        raise BulkError(errors, [None, None])

    with pytest.raises(BulkError):
        submit(works(2, 0.0), claim, refuse, threading.Event(), lambda done: None)
    assert claim.released == (0, 0)


def test_a_failure_passes_and_leaves_what_is_not_known() -> None:
    claim = Notes()
    with pytest.raises(StoreUnavailableError):
        run(works(3 * BATCH, 0.0), claim, Sink(fails=1))
    assert claim.released is not None
    sent, upto = claim.released
    assert sent == BATCH
    assert upto >= 2 * BATCH
