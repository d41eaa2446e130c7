"""One dispatch step for the queues of one component; see ``credit.py`` for what may be dispatched.

A lane remembers whether its last step left work behind for lack of credit (*starved*): then only
credit can change anything, and the store has marked that the next settling must wake the leader.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from tq_celery.scheduler.credit import Component, grant
from tq_celery.store.contract import LeaderStore

__all__ = ["Lane", "Overlapping", "Single", "Unscheduled", "lane_of"]

#: In flight without bound: what a namespace without scheduling allows.
UNBOUNDED = 2**31 - 1


class Lane(ABC):
    """``starved``: work was left for lack of credit; ``more``: the batch ended, not the work."""

    def __init__(self) -> None:
        self.starved = False
        self.more = False

    @abstractmethod
    def dispatch(self, store: LeaderStore, epoch: int, batch: int) -> int:
        """Dispatch up to about ``batch`` tasks; return how many."""


class Single(Lane):
    """Queues that all of their workers consume: one call."""

    def __init__(self, queues: Sequence[str], capacity: int) -> None:
        super().__init__()
        self.queues = tuple(queues)
        self.capacity = capacity

    def dispatch(self, store: LeaderStore, epoch: int, batch: int) -> int:
        """Fill the capacity."""
        if self.capacity <= 0:
            return 0
        reply = store.dispatch(epoch, self.queues, self.capacity, batch)
        self.starved, self.more = reply.starved, reply.count >= batch
        return reply.count


class Unscheduled(Single):
    """Without a policy only returned work is ever pending, and nothing holds it back."""

    def __init__(self, queues: Sequence[str]) -> None:
        super().__init__(queues, UNBOUNDED if queues else 0)


class Overlapping(Lane):
    """Queues whose workers overlap in part: as many calls as it takes to close every bundle."""

    def __init__(self, component: Component) -> None:
        super().__init__()
        self.component = component

    def dispatch(self, store: LeaderStore, epoch: int, batch: int) -> int:
        """Dispatch to all open bundles together, so that the policy chooses between them."""
        queues = self.component.queues
        # In flight only falls without us, so numbers a moment old never credit a slot twice.
        in_flight = dict(store.dispatch(epoch, queues, 0, 1).counts)
        moved, closed, starved = 0, queues, False
        while moved < batch and (next_grant := grant(self.component, in_flight)):
            asked = min(batch, next_grant.room)
            reply = store.dispatch(epoch, next_grant.queues, next_grant.capacity, asked)
            in_flight.update(reply.counts)
            moved += reply.count
            if reply.count < asked:
                starved = reply.starved  # a bound on the whole namespace, not ours
                closed = tuple(queue for queue in queues if queue not in next_grant.queues)
                break
        self.more = moved >= batch
        if closed and not self.more:
            # Without credit nothing moves, but work left behind is marked: settling will wake us.
            starved = store.dispatch(epoch, closed, 0, 1).starved or starved
        self.starved = starved
        return moved


def lane_of(component: Component) -> Lane:
    """Return the lane for a component."""
    if len(component.bundles) == 1:
        return Single(component.queues, sum(component.capacities))
    return Overlapping(component)
