"""The worker's guards: the token, and that a settlement acknowledges in the same step."""

from __future__ import annotations

from bench.experiments.guards.account import Shown
from bench.experiments.guards.scheduler import Faults
from bench.experiments.guards.stage import PATIENCE, Stage
from bench.harness.errors import BenchError
from bench.harness.failures import signals
from bench.harness.process import until

__all__ = ["acknowledgement", "token"]

#: Deliveries that the worker holds when it is frozen or killed.
HELD = 50


def token(stage: Stage, *, removed: bool) -> Shown:
    """Freeze a worker past its lease, let another one settle its tasks, and let it settle them too.

    Without the guard what was taken back is kept, and a settlement under its token counts.
    """
    stage.leads(stage.scheduler(Faults(patch="any token" if removed else "")))
    stage.submit(HELD)
    hand = stage.hand(HELD, "any" if removed else "settle")
    signals.freeze(hand)
    stage.offer("q")
    stage.settle_all()
    hand.tell("settle")
    signals.resume(hand)
    until(lambda: "settled" in hand.output(), "the worker to settle", PATIENCE)
    refused = stage.counter("resettled")
    if not removed and refused != HELD:
        raise BenchError(f"guards, token: {refused} settlements were refused instead of {HELD}")
    return stage.shown(refused=refused)


def acknowledgement(stage: Stage, *, removed: bool, when: str) -> Shown:
    """Kill a worker in the middle of settling, and let another one go on.

    Without the guard, outcome and acknowledgement are two calls: ``later``, the outcome comes
    first; ``first``, the acknowledgement does. The worker is killed between the two.
    """
    stage.leads(stage.scene.scheduler())
    stage.submit(HELD)
    how = {"later": "record", "first": "ack"}[when] if removed else "dies"
    hand = stage.hand(HELD, how)
    hand.tell("settle")
    until(lambda: not hand.alive, "the worker to die", PATIENCE)
    if hand.code != -9:
        hand.check()
    stage.offer("q")
    stage.settle_all()
    return stage.shown()
