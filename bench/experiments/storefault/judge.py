"""What each arm has to show, and what it must never show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.experiments.storefault.plan import ARMS
from bench.experiments.storefault.run import Trial
from bench.harness.measure import spread

__all__ = ["failures", "summary"]

#: What may never be more than 0, in any arm, with the words for it.
NEVER = {
    "lost": "accepted after the failover and lost",
    "settled_twice": "settled twice",
    "stale_dispatches": "dispatched under a superseded epoch",
}


def failures(trial: Trial) -> list[str]:
    """Return in words what the trial should not have shown, or should have and did not.

    A fault that destroys nothing and an election that gives no number twice where nothing keeps it
    from it are failures as well: then the trial says nothing about the arms beside it.
    """
    arm, found, words = ARMS[trial.arm], trial.account, list[str]()
    for name, what in NEVER.items():
        value = getattr(found, name)
        count = value if isinstance(value, int) else len(value)
        if count:
            words.append(f"{count} {what}")
    if trial.violations:
        words.append(f"{len(trial.violations)} promises broken, the first: {trial.violations[0]}")
    twice = len(found.given_twice)
    if arm.plain and not twice:
        words.append("no epoch was given twice although nothing was done against it")
    if twice and not arm.plain and arm.dying == "nobody" and not (arm.lives and arm.leads):
        words.append(f"epochs given twice: {', '.join(map(str, found.given_twice))}")
    if (arm.dying == "schedulers" or arm.lives) and found.epochs[-1] in found.given_twice:
        words.append(f"work goes on under epoch {found.epochs[-1]}, which was given twice")
    if arm.fault == "cut" and not arm.min_replicas and not found.destroyed:
        words.append("nothing that was accepted was destroyed although replication was cut")
    if arm.fault == "cut" and arm.min_replicas and found.destroyed:
        words.append(f"{found.destroyed} accepted and destroyed")
    if arm.min_replicas and not found.refused:
        words.append("nothing was refused although no replica followed")
    if found.dispatching_ms is None or found.accepting_ms is None:
        words.append("work did not go on")
    return words


def summary(trials: Sequence[Trial]) -> dict[str, Any]:
    """Return the figures of an arm: sums of what is counted, medians of what is timed."""
    accounts = [each.account for each in trials]

    def total(name: str) -> int:
        values = [getattr(each, name) for each in accounts]
        return sum(value if isinstance(value, int) else len(value) for value in values)

    def times(name: str) -> dict[str, float] | None:
        values = [getattr(each, name) for each in accounts]
        known = [float(value) for value in values if value is not None]
        return spread(known)._asdict() if known else None

    return {
        "trials": len(trials),
        "epochs_given_twice": total("given_twice"),
        **{
            name: total(name)
            for name in ("dispatched_under_them", "accepted", "refused", "unknown", "completed",
                         "destroyed", "destroyed_run", "lost", "run_again", "settled_twice",
                         "stale_dispatches")
        },
        "accepting_ms": times("accepting_ms"),
        "dispatching_ms": times("dispatching_ms"),
        "behind_bytes": spread([float(each.fault.behind) for each in trials])._asdict(),
    }  # fmt: skip
