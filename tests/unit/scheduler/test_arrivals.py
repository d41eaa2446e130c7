"""Reading ahead: batches arrive in order, once, and none from before a restart."""

from __future__ import annotations

import threading
from typing import Any

from tq_celery.policies.fifo import Fifo
from tq_celery.policies.priority import Priority
from tq_celery.scheduler.arrivals import Batch, Handover, rank_arrivals
from tq_celery.store.contract import Arrival
from tq_celery.store.record import NO_DEADLINE, Record, pack_record, unpack_record


def arrival(entry: bytes, **changes) -> Arrival:
    fields: dict[str, Any] = {
        "ms": 0,
        "seq": 0,
        "cost": 1.0,
        "priority": 3,
        "deadline": NO_DEADLINE,
    }
    fields |= {"submitted": 5, "admitted": 0, "attempts": 0, "paid": 0, "key": b"0.0.0.a"}
    return Arrival(entry, "q", b"acme", pack_record(Record(**{**fields, **changes})))


def test_the_entrys_id_becomes_the_arrival() -> None:
    (ranked,), unreadable = rank_arrivals(Fifo(), [arrival(b"1700000000123-7")])
    record = unpack_record(ranked.record)
    assert (record.ms, record.seq, record.key) == (1700000000123, 7, b"0.0.0.a")
    assert ranked.score == 1700000000123
    assert unreadable == []


def test_what_cannot_be_ranked_is_kept_apart_with_a_reason() -> None:
    class Choosy(Priority):
        def rank(self, task):
            if task.priority == 9:
                raise ArithmeticError("no rank")
            return super().rank(task)

    raw = Arrival(b"3-0", "", b"", b"", {b"x": b"y"}, "unreadable ingress entry")
    short = arrival(b"4-0")._replace(record=b"short")
    ranked, unreadable = rank_arrivals(
        Choosy(), [arrival(b"1-0"), arrival(b"2-0", priority=9), raw, short]
    )
    assert [each.entry for each in ranked] == [b"1-0"]
    assert [each.entry for each in unreadable] == [b"2-0", b"3-0", b"4-0"]
    assert all(each.reason for each in unreadable)


def batch(generation: int) -> Batch:
    return Batch(generation, (), ())


def test_a_handover_keeps_the_order_and_its_depth() -> None:
    handover = Handover(depth=2)
    assert [handover.put(batch(n), 0, timeout=0.01) for n in (1, 2, 3)] == [True, True, False]
    assert [handover.take(), handover.take(), handover.take()] == [batch(1), batch(2), None]


def test_a_full_handover_takes_the_next_batch_as_soon_as_there_is_room() -> None:
    handover = Handover(depth=1)
    handover.put(batch(1), 0, timeout=0)
    taken = threading.Timer(0.05, handover.take)
    taken.start()
    assert handover.put(batch(2), 0, timeout=5)
    taken.join()


def test_a_batch_from_before_a_restart_is_dropped() -> None:
    handover = Handover()
    handover.put(batch(1), 0, timeout=0)
    handover.restart()
    assert handover.put(batch(2), 0, timeout=0)
    assert handover.take() is None
    assert handover.put(batch(3), handover.serial, timeout=0)
    assert handover.take() == batch(3)
