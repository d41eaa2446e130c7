"""What a worker tells of its own tasks, and how it judges itself."""

from __future__ import annotations

from time import monotonic
from types import SimpleNamespace

import pytest

from tq_celery.metrics.samples import Samples
from tq_celery.states import Outcome
from tq_celery.store.contract import Delivery, Token
from tq_celery.worker.deliveries import DeliveryTable, Ended
from tq_celery.worker.exposition import Exposition
from tq_celery.worker.timings import Timings


def delivery(queue: str = "q", since: int = 0) -> Delivery:
    return Delivery(Token(queue, b"1-0", 1), b"key", 0, b"", since=since)


def test_waits_and_runs_by_queue() -> None:
    table = DeliveryTable()
    table.timings = timings = Timings()
    table.take([delivery(since=1_000), delivery("low"), delivery(since=2_000)], 0.0)
    first, second, third = table.waiting
    table.settle(first, Outcome.COMPLETED, 3.0, 3.5)
    table.settle(second, Outcome.FAILED, 4.0, 14.0)
    table.settle(third, Outcome.REVOKED, 0.0, 5.0)  # never started
    timings.ended.extend(item for item in table.outbox if isinstance(item, Ended))
    timings.count(100.0, lambda seconds: seconds * 1000)

    found = timings.queues()

    assert set(found) == {"q", "low"}
    assert (found["q"].wait.total, found["q"].execution.total, found["q"].latency.total) == (
        2.0, 0.5, 2.5,
    )  # fmt: skip
    assert found["q"].wait.cumulative()[-1] == ("+Inf", 1)
    assert found["low"].execution.total == 10.0
    assert found["low"].wait.cumulative()[-1] == ("+Inf", 0), "since when is not known"


def test_few_ends_are_counted_together_after_a_while_and_many_at_once() -> None:
    timings = Timings()
    one = Ended(Token("q", b"1-0", 1), Outcome.COMPLETED, b"", 1.0, 2.0, 0)

    def counted(at: float) -> int:
        timings.count(at, lambda seconds: seconds * 1000)
        found = timings.queues().get("q")
        return found.execution.cumulative()[-1][1] if found is not None else 0

    timings.ended.append(one)
    assert counted(100.0) == 1
    timings.ended.append(one)
    assert counted(100.05) == 1, "one alone waits"
    assert counted(100.15) == 2
    for _ in range(256):
        timings.ended.append(one)
    assert counted(100.16) == 258


@pytest.mark.parametrize(
    ("answered", "ago", "ready"),
    [
        (True, 0.0, (True, "ready: 4 slots")),
        (True, 31.0, (False, "not ready: the store answered last 31.0 s ago")),
        (False, 2.0, (False, "not ready: the store answered last 2.0 s ago")),
    ],
)
def test_ready_while_it_holds_its_lease(answered: bool, ago: float, ready) -> None:
    reader = SimpleNamespace(
        answered=answered, heard=monotonic() - ago, slots=4, table=[1, 2], finished=False,
        settings=SimpleNamespace(lease=30.0),
    )  # fmt: skip
    exposition = Exposition(reader, Timings())  # type: ignore[arg-type]
    assert exposition.ready() == ready
    assert exposition.healthy() == (True, "alive"), "whatever the server does"
    samples = Samples()
    exposition.fill(samples)
    assert b"tq_worker_held_deliveries 2.0" in samples.encode("")[0]
    reader.finished = True
    assert exposition.healthy() == (False, "ended: the I/O thread")
