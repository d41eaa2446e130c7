"""What the trials of one arm and lease come to, and whether that is what was promised. Pure."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.experiments.failover.moments import Trial
from bench.harness.measure import spread

__all__ = ["GAP_MS", "GRACEFUL_MS", "RATE", "SLACK_MS", "cell", "failures"]

#: Longest gap and p99.9 of the gaps while nothing happens, ms, at :data:`RATE` dispatches a second.
GAP_MS, RATE = 10.0, 1_000.0
#: Median outage of a leader that is stopped, ms.
GRACEFUL_MS = 50.0
#: What a killed leader may cost beyond its lease, ms, in every trial.
SLACK_MS = 200.0


def cell(ttl: float, trials: Sequence[Trial], violations: Sequence[str]) -> dict[str, Any]:
    """Return the figures of one arm and lease.

    A trial that nobody recovered from is in no median: ``recovered`` counts the others.
    """
    outages = [each.outage_ms for each in trials if each.outage_ms is not None]
    watched = [each.watched_ms for each in trials if each.watched_ms is not None]
    gaps = [each.p999_ms for each in trials if each.p999_ms is not None]
    return {
        "ttl_s": ttl,
        "trials": len(trials),
        "recovered": len(outages),
        "median_ms": statistics.median(outages) if outages else None,
        "min_ms": min(outages, default=None),
        "max_ms": max(outages, default=None),
        "watched_ms": min(watched, default=None),
        "p999_ms": max(gaps, default=None),
        "lease_ms": _spread(each.lease_ms for each in trials),
        "grant_ms": _spread(each.grant_ms for each in trials),
        "act_ms": _spread(each.act_ms for each in trials),
        "rate": _spread(each.rate for each in trials),
        "tasks": sum(each.tasks for each in trials),
        "lost": sum(each.lost for each in trials),
        "duplicates": sum(each.duplicates for each in trials),
        "executed_twice": sum(each.executed_twice for each in trials),
        "stale_dispatches": sum(each.stale_dispatches for each in trials),
        "fenced_writes": sum(each.fenced_writes for each in trials),
        "stopped_by": dict(Counter(each.stopped_by for each in trials if each.stopped_by)),
        "leaders": max((each.leaders for each in trials), default=0),
        "samples": sum(each.samples for each in trials),
        "violations": list(violations),
    }


def _spread(values: Iterable[float | None]) -> dict[str, float] | None:
    found = [each for each in values if each is not None]
    return spread(found)._asdict() if found else None


def failures(arm: str, found: Mapping[str, Any], *, goals: bool = True) -> list[str]:
    """Return in words what one cell did not keep; without ``goals`` its times are not judged."""
    words = [
        f"{found[name]} {text}"
        for name, text in (
            ("lost", "lost"), ("duplicates", "settled twice"),
            ("executed_twice", "executed twice"),
            ("stale_dispatches", "dispatched under an old epoch"),
        )
        if found[name]
    ]  # fmt: skip
    words += found["violations"]
    if found["leaders"] > 1:
        words.append(f"{found['leaders']} leaders at once")
    if arm == "single" and found["recovered"]:
        words.append(f"{found['recovered']} trials recovered without anybody to do it")
    if arm != "single" and found["recovered"] < found["trials"]:
        words.append(f"{found['trials'] - found['recovered']} trials not recovered")
    elif goals and found["trials"]:
        words += _late(arm, found)
    return words


def _late(arm: str, found: Mapping[str, Any]) -> list[str]:
    if arm == "none":
        limits = [("longest gap", found["max_ms"], GAP_MS), ("p99.9", found["p999_ms"], GAP_MS)]
        words = [f"{found['rate']['min']:,.0f} dispatches/s"] if found["rate"]["min"] < RATE else []
    elif arm == "graceful":
        limits, words = [("median", found["median_ms"], GRACEFUL_MS)], []
    elif arm == "crash":
        limits, words = [("longest", found["max_ms"], found["ttl_s"] * 1000 + SLACK_MS)], []
    else:
        return []
    return words + [
        f"{what} {ms:,.0f} ms > {most:,.0f} ms" for what, ms, most in limits if ms > most
    ]
