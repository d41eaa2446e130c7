"""What is known of a task when it ends: the service its tenant got, its wait, and its deadline."""

from __future__ import annotations

import math

from tq_celery.states import Outcome
from tq_celery.store.accounts_contract import HOUR, LONGEST, MOST_SERVED, Served
from tq_celery.store.contract import Settlement
from tq_celery.store.memory.state import Namespace, Run
from tq_celery.store.record import NO_DEADLINE, unpack_record

__all__ = ["note_end"]

#: Ends after which a deadline was kept or missed: work that goes on, is unwanted or dead is apart.
JUDGED = {
    Outcome.COMPLETED, Outcome.FAILED, Outcome.IGNORED, Outcome.REJECTED, Outcome.EXPIRED,
}  # fmt: skip


def note_end(ns: Namespace, run: Run, settlement: Settlement) -> None:
    """Count the end of a task; ``run.dispatched`` is 0 for one that never was."""
    queue, task = settlement.token.queue, unpack_record(run.record)
    micros = _micros(settlement.started, settlement.finished)
    if task.deadline < NO_DEADLINE and settlement.outcome in JUDGED:
        ns.count("due", queue)
        if settlement.finished > task.deadline:
            ns.count("missed", queue)
    ns.count("service", queue, micros)
    if not run.dispatched and not micros:
        return
    waits, waited = int(bool(run.dispatched)), 0
    if run.dispatched:
        waited = max(0, run.dispatched - task.ms)
        hour = ns.now // HOUR
        field = (f"longest{hour % 2}", queue)
        longest = hour * LONGEST + min(waited, LONGEST - 1)
        # one of an hour to come was written before the clock was set back
        kept = ns.counters[field] if ns.counters[field] < (hour + 1) * LONGEST else 0
        ns.counters[field] = max(kept, longest)
    known = ns.service.get(run.tenant)
    if known is not None or len(ns.service) < MOST_SERVED:
        old = known or Served()
        ns.service[run.tenant] = Served(
            old.micros + micros, old.waits + waits, old.waited + waited, ns.now, old.shown
        )
    if known is None or not known.shown:
        for word, more in (("service", micros), ("waits", waits), ("waited", waited)):
            ns.count("other", word, more)


def _micros(started: float, finished: float) -> int:
    """Return the microseconds a task ran; 0 for what cannot be."""
    ran = (finished - started) * 1000 + 0.5 if started > 0 else 0.0
    return math.floor(ran) if 0 < ran < 2**52 else 0
