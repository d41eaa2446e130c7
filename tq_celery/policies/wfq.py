r"""Weighted fair sharing between tenants, by self-clocked fair queuing.

**What is shared.** Tenants with work waiting receive service (the sum of the costs of what starts)
in proportion to their weights, whatever the number, the size or the arrival time of their tasks.
How long a tenant waits therefore depends on its own backlog and on how many others are active, and
never on how much somebody else has queued.

**The formula.** Fair shares are kept per *group* of queues: queues that the same workers consume
compete for the same slots. A group has one virtual time ``V`` and, for each tenant with work
waiting in it, one number ``start``::

    tenant becomes backlogged   start  = V
    score of its head           finish = start + cost(head) / weight
    dispatch                    take the lowest finish f of all heads
                                V      = max(V, f)
                                start  = f        (if the tenant still waits)

This is self-clocked fair queuing (Golestani, *A self-clocked fair queueing scheme for broadband
applications*, INFOCOM 1994): instead of simulating an ideal fluid server to know how far it has
come, ``V`` is read off the task that was just dispatched. For two tenants that both stay
backlogged the service each received, divided by its weight, differs by at most ``c1/w1 + c2/w2``,
where ``c`` is the largest cost of either's tasks.

**Why start is kept while the tenant waits.** A tenant's head can change without a dispatch: a more
urgent task arrives, a lost one comes back, the weight is altered. Then only ``finish`` is computed
again, from the same ``start`` and the new head. If ``start`` were taken from ``V`` again, each
change would send the tenant to the back: one that receives an urgent task every few dispatches
would not be served at all. For the same reason a new weight acts on the backlog at once: only one
division separates the kept ``start`` from the new score.

**Why idle tenants need no memory.** Textbook formulations keep the last finish of every tenant,
because ``start = max(V, last finish)``. Here the last finish is that of a *dispatched* task, and
dispatching raised ``V`` to it: ``V >=`` every finish ever dispatched. The maximum is always ``V``,
and a drained tenant leaves nothing behind. State is one number per tenant with work waiting.
It follows that idleness earns nothing, and that leaving and coming back gains nothing either: who
drains at finish ``f`` comes back at ``V >= f``.

**Gated tenants.** A tenant that may not be served (at its cap, or paused) loses its ``start`` and
comes back at ``V``. Credit for time it could not use would be paid later by everybody else.

**Work is charged once.** A task that was dispatched has moved its tenant's ``start`` by its cost.
If it returns (given back unstarted, or recovered from a lost worker) it is marked *paid* and costs
0 as a head, so its finish is the tenant's own ``start``.

**What V is not.** ``V`` is not reset when no task waits: tasks may still be executing, and their
tenants' next tasks must not start from zero against those that kept waiting.

**Order within a tenant** is arrival. ``order_within`` selects priority or deadline instead; that
changes which of a tenant's own tasks runs first and never what the tenant receives. With
``ageing``, priority within a tenant is weighed against waiting as in ``priority.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from tq_celery.policies.contract import Between, Policy, Task
from tq_celery.policies.edf import EarliestDeadline
from tq_celery.policies.fifo import Fifo
from tq_celery.policies.priority import Priority

__all__ = ["ORDERS", "OrderWithin", "WeightedFair", "finish_tag"]

#: What may decide between tasks of one tenant.
OrderWithin = Literal["arrival", "priority", "deadline"]

#: The policy that ranks one tenant's tasks for each order; only ``priority`` reads the ageing.
ORDERS: dict[OrderWithin, Callable[[float | None], Policy]] = {
    "arrival": lambda _: Fifo(),
    "priority": Priority,
    "deadline": lambda _: EarliestDeadline(),
}


def finish_tag(start: float, cost: float, weight: float, paid: bool) -> float:
    """Return the score of a head: where its tenant will stand once it has been served."""
    return start if paid else start + cost / weight


@dataclass(frozen=True, slots=True)
class WeightedFair:
    """Fair between tenants; ``order_within`` and ``ageing`` rank the tasks of one tenant."""

    order_within: OrderWithin = "arrival"
    ageing: float | None = None
    name: str = field(default="wfq", init=False)
    between: Between = field(default="fair", init=False)
    within: Policy = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "within", ORDERS[self.order_within](self.ageing))

    def rank(self, task: Task) -> float:
        """Return the rank within the tenant."""
        return self.within.rank(task)
