"""What is cut off, in which way, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bench.harness.proxy import FaultProxy

__all__ = ["ARMS", "Arm", "Plan", "Side", "begin", "named"]

Side = Literal["leader", "worker"]
How = Literal["silent", "up", "down", "reset"]

WAYS: tuple[How, ...] = ("silent", "up", "down", "reset")


@dataclass(frozen=True, slots=True)
class Plan:
    """Times in seconds. ``slack`` is what a busy machine may add to each promise about time."""

    ttl: float = 2.0
    lease: float = 6.0
    #: Tasks per second, and seconds of each: short ones where the leader is cut off; where a worker
    #: is, so long that it always runs some.
    leader_rate: float = 200.0
    leader_task: float = 0.002
    worker_rate: float = 25.0
    worker_task: float = 0.3
    slots: int = 8
    #: Steady load before the cut (beyond a whole lease where a worker is cut off: only who has
    #: watched for that long takes anything back), and after it is healed, for whoever was cut off
    #: to misbehave.
    before: float = 1.5
    after: float = 3.0
    slack: float = 0.2


@dataclass(frozen=True, slots=True)
class Arm:
    """One partition.

    ``silent``: nothing gets through either way, and no connection is ended; ``up``: what the side
    says is held back, what it is told arrives; ``down``: the other way round; ``reset``: every
    connection is reset and new ones are refused. What was held back arrives when it is over.
    """

    side: Side
    how: How
    long: bool

    @property
    def name(self) -> str:
        """``leader-up-long``."""
        return f"{self.side}-{self.how}-{'long' if self.long else 'short'}"

    def seconds(self, plan: Plan) -> float:
        """How long it lasts: less than a third, or more than twice, what the side holds."""
        held = plan.ttl if self.side == "leader" else plan.lease
        return (2.5 if self.long else 0.3) * held

    def promised(self, plan: Plan) -> float:
        """Seconds within which work goes on that the cut-off side had.

        Of a leader: from one dispatch to the next. Of a worker: from the cut until all that it ran
        is settled.
        """
        if not self.long:
            # the longest back-off after a failed call; a task that was running, and its settlement
            return self.seconds(plan) + (0.7 if self.side == "leader" else 2.0) + plan.slack
        if self.side == "leader":
            # of an answer that was lost, the renewal counts: a quarter of the lease later
            return plan.ttl * (1.25 if self.how == "down" else 1.0) + plan.slack
        # twice: the answers to the last words may still be on their way for one time-out
        return 2 * plan.lease + plan.slack


ARMS = (
    *(Arm("leader", how, long) for how in WAYS for long in (False, True)),
    Arm("worker", "silent", False),
    *(Arm("worker", how, True) for how in WAYS),
)


def named(name: str) -> Arm:
    """Return the arm of that name; raises KeyError."""
    return {arm.name: arm for arm in ARMS}[name]


def begin(proxy: FaultProxy, arm: Arm) -> None:
    """Cut off whatever reaches the server through ``proxy``, until it heals."""
    if arm.how == "reset":
        proxy.cut()
    elif arm.how == "silent":
        proxy.stall()
    else:
        proxy.stall(arm.how)
