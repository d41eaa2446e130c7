"""What a verification could not see, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tq_celery.store.verify.dead import removed_letters
from tq_celery.store.verify.look import Look
from tq_celery.store.verify.records import BEGINNING, Records, Settled
from tq_celery.store.verify.tasks import Tasks

__all__ = ["CLOCK", "clock_was_stepped", "limits"]

#: Ms by which times of different clocks, or of the clock and of stream entries, may differ.
CLOCK = 20


def clock_was_stepped(settled: Iterable[Settled]) -> bool:
    """Tell whether a task ended before it was dispatched, by the times that are noted.

    Entries of a stream never go back: after a step back theirs stand still until the clock is there
    again. After a step forward a worker has the old time until its lease is renewed.
    """
    return any(
        record.exec != BEGINNING and record.finished < record.exec[0] - CLOCK for record in settled
    )


def limits(look: Look, tasks: Tasks, records: Records) -> Iterator[str]:
    """Yield one sentence for each thing that was not, or not wholly, looked at."""
    if not any(name.startswith("accepted:") for name in look.counters):
        yield "nothing was ever accepted here: the name may be another, or the server was emptied"
    if records.unnamed:
        yield (
            f"{records.unnamed} results of an earlier version do not name their deliveries: credit "
            "and service were not looked at"
        )
    if records.unreadable:
        yield f"{len(records.unreadable)} entries of the results are no records"
    if tasks.foreign:
        yield f"{len(tasks.foreign)} entries among the live tasks are no tasks"
    if removed_letters(look.dead):
        yield f"{removed_letters(look.dead)} dead letters were requeued or purged"
    if not tasks.at_once:
        yield (
            "too many live tasks to be read in one moment: tenants were not counted one by one, "
            "nor was it compared whether waiting tenants compete and deliveries are whole"
        )
    elif look.unseen:
        yield (
            "tenants came while it looked, or are too many to ask for each: what waits was not "
            "counted tenant by tenant"
        )
    if clock_was_stepped(records.settled):
        yield (
            "the server's clock was stepped: epochs were not compared between queues, and credit "
            "and service were not looked at"
        )
