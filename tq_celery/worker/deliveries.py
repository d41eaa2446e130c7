"""The delivery table: every delivery this worker holds, from the fetch to the settlement.

A delivery is *waiting* from the moment it is fetched until a pool slot starts it, whether or not
it was handed over to Celery in between, and *running* until its outcome is in the outbox.
:meth:`DeliveryTable.claim` is the one gate between the two. It removes the delivery from
``waiting``, which is atomic under the interpreter's lock, so exactly one of the pool (start it)
and the I/O thread (give it back) gets it.

The event loop, pool threads and the I/O thread share the table. Each step below is a single
operation on a dict or deque; nothing here blocks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from tq_celery.states import Outcome
from tq_celery.store.contract import Delivery, Return, Token
from tq_celery.worker.epochs import AWAY, Epochs
from tq_celery.worker.timings import Timings
from tq_celery.worker.wakeup import Wakeup

if TYPE_CHECKING:
    from tq_celery.worker.spans import Spans

__all__ = ["Burial", "DeliveryTable", "Ended", "Held"]


class Held:
    """One delivery that this worker holds. ``fetched`` is monotonic seconds."""

    __slots__ = ("delivery", "fetched", "handed", "request", "reserved", "started", "task_id")

    def __init__(self, delivery: Delivery, fetched: float) -> None:
        self.delivery = delivery
        self.fetched = fetched
        self.task_id: str | None = None
        #: Monotonic seconds at which a slot took it; 0 before.
        self.started = 0.0
        #: Whether Celery has it.
        self.handed = False
        #: Celery's request, once there is one.
        self.request: Any = None
        #: Whether Celery counts it among its reserved requests.
        self.reserved = False


class Ended(NamedTuple):
    """The one outcome of a delivery; monotonic seconds, ``started`` is 0 when it never did.

    ``since`` is the store's ms at which the task was submitted, 0 when that is not known.
    """

    token: Token
    outcome: Outcome
    digest: bytes
    started: float
    finished: float
    since: int


class Burial:
    """A delivery that must not run again, and why."""

    __slots__ = ("reason", "token")

    def __init__(self, token: Token, reason: str) -> None:
        self.token = token
        self.reason = reason


#: How long a delivery whose task id is busy here is kept out of reach, ms.
PARKED_DELAY = 1000

Departure = Ended | Return | Burial


class DeliveryTable:
    """All deliveries of one worker process; see the module for its states."""

    def __init__(self) -> None:
        #: Set when ``fetched`` got something: the event loop waits for it.
        self.arrived = Wakeup()
        #: Set when ``outbox`` got something: the I/O thread waits for it.
        self.departed = Wakeup()
        #: Fetched, not handed over yet, in order of dispatch.
        self.fetched: deque[Held] = deque()
        #: Not started: fetched or handed over. A dict for its order.
        self.waiting: dict[Held, None] = {}
        #: Started, not settled.
        self.running: dict[Held, None] = {}
        #: Fetched while the same task id was in the pool.
        self.parked: dict[str, Held] = {}
        #: Task ids that Celery has in its hands.
        self.ids: dict[str, Held] = {}
        #: Requests that Celery still counts as reserved although their delivery was given back.
        self.forgotten: deque[Any] = deque()
        #: What the I/O thread still has to write to the store; times are monotonic seconds.
        self.outbox: deque[Departure] = deque()
        #: The newest epoch of what was taken in.
        self.epochs = Epochs()
        #: Counts the ends of tasks; None where nobody asks.
        self.timings: Timings | None = None
        #: Writes the spans of settled tasks; None when tracing is off.
        self.spans: Spans | None = None

    def __len__(self) -> int:
        return len(self.waiting) + len(self.running)

    def close(self) -> None:
        """Close the two wake-ups; nobody waits for them any more."""
        self.arrived.close()
        self.departed.close()

    def take(self, deliveries: Iterable[Delivery], now: float) -> None:
        """Take in deliveries just read; a superseded leader's go back at once."""
        waiting, fetched, epochs = self.waiting, self.fetched, self.epochs
        for delivery in deliveries:
            token = delivery.token
            if token.epoch != epochs.newest and epochs.refuses(token, now):
                self.outbox.append(Return(token, False, AWAY))
                self.departed.set()
                continue
            held = Held(delivery, now)
            waiting[held] = None
            fetched.append(held)
        self.arrived.set()

    def tokens(self) -> set[Token]:
        """Return the tokens of everything held or on its way to the store."""
        held = {each.delivery.token for each in (*tuple(self.waiting), *tuple(self.running))}
        return held.union(item.token for item in tuple(self.outbox))

    def claim(self, held: Held) -> bool:
        """Start ``held`` if nobody gave it back or started it; the only way to start."""
        if self.waiting.pop(held, self) is self:
            return False
        self.running[held] = None
        return True

    def unclaim(self, held: Held) -> None:
        """Take back a claim: the pool did not take the task after all."""
        if self.running.pop(held, self) is not self:
            self.waiting[held] = None

    def hand_over(self, held: Held, task_id: str) -> bool:
        """Note that Celery gets ``held``; ``False`` when a task of its id is here already.

        Celery knows tasks by id, so two of one id never run in one worker at a time. A retry often
        arrives while its parent still writes its result: the second waits for the first to leave.
        """
        other = self.ids.setdefault(task_id, held)
        if other is not held:
            if self.parked.setdefault(task_id, held) is not held:
                self.give_back(held, delay=PARKED_DELAY)
            elif task_id not in self.ids and self.parked.pop(task_id, None) is held:
                # the first left between the two looks
                self.fetched.append(held)
                self.arrived.set()
            return False
        held.task_id = task_id
        held.handed = True
        return True

    def settle(self, held: Held, outcome: Outcome, started: float, finished: float) -> None:
        """Queue the one outcome of ``held``; times are monotonic seconds, 0 = never started."""
        if self.spans is not None:
            self.spans.note(held, outcome, started, finished)
        of = held.delivery
        self._leave(held, Ended(of.token, outcome, of.digest, started, finished, of.since))

    def give_back(self, held: Held, *, counted: bool = False, delay: int = 0) -> None:
        """Queue ``held`` for its return to pending, ``delay`` ms from then."""
        self._leave(held, Return(held.delivery.token, counted, delay))

    def bury(self, held: Held, reason: str) -> None:
        """Queue ``held`` for the dead-letter stream."""
        self._leave(held, Burial(held.delivery.token, reason))

    def _leave(self, held: Held, item: Departure) -> None:
        self.waiting.pop(held, None)
        self.running.pop(held, None)
        self.outbox.append(item)
        self.departed.set()
        if self.fetched:
            self.arrived.set()
        task_id = held.task_id
        if task_id is not None and self.ids.get(task_id) is held:
            del self.ids[task_id]
            parked = self.parked.pop(task_id, None) if self.parked else None
            if parked is not None:
                self.fetched.append(parked)
                self.arrived.set()

    def reclaim_waiting(self, keep: int, before: float) -> list[Held]:
        """Take out what waits beyond the ``keep`` first and was fetched before ``before``.

        The caller owns what it gets and gives it back. The last fetched go first: they are the
        lowest ranks of what this worker holds.
        """
        waiting = tuple(self.waiting)
        taken = []
        for held in reversed(waiting[max(keep, 0) :]):
            if held.fetched < before and self.waiting.pop(held, self) is not self:
                taken.append(held)
                if held.reserved:
                    self.forgotten.append(held.request)
        if self.forgotten:
            self.arrived.set()
        return taken

    def hand_over_again(self) -> None:
        """After Celery forgot what it had not started: queue that again, in the old order."""
        lost = [held for held in tuple(self.waiting) if held.handed]
        for held in reversed(lost):
            held.handed = held.reserved = False
            held.request = None
            if held.task_id is not None:
                self.ids.pop(held.task_id, None)
            self.fetched.appendleft(held)
        if self.fetched:
            self.arrived.set()
