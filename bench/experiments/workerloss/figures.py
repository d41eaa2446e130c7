"""The figures of all trials of an arm, and the tables that show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from bench.experiments.workerloss.burial import Burial
from bench.experiments.workerloss.names import DEADLY
from bench.experiments.workerloss.trial import Trial
from bench.harness.report import table

__all__ = ["arm_figures", "burial_table", "end_figures", "recoveries", "trial_table"]


def recoveries(several: Iterable[Trial]) -> list[float]:
    """Return the seconds until the last task ran again, of each trial that lost one."""
    return [each.account.recovery for each in several if each.account.recovery is not None]


def arm_figures(several: Sequence[Trial]) -> dict[str, Any]:
    """Return the figures of one pool under one fault, over all trials."""
    times = recoveries(several)
    balances = [each.account for each in several]
    return {
        "how": sorted({each.how for each in several}),
        "median_ms": round(1000 * median(times)) if times else None,
        "max_ms": round(1000 * max(times)) if times else None,
        "tasks": sum(each.tasks for each in balances),
        "taken": sum(each.taken for each in balances),
        "lost": sum(len(each.lost) for each in balances),
        "duplicates": sum(len(each.settled_twice) for each in balances),
        "executed_again": sum(each.duplicates for each in balances),
        "unexplained": sum(len(each.unexplained) for each in balances),
        "stale_dispatches": sum(each.stale for each in several),
        "slots": sum(each.slots for each in several),
        "used": sum(each.used for each in several),
        "refused": sum(each.refused for each in several),
        "pause_ms": round(1000 * max(each.pause for each in several)),
        "stamps_ms": max(each.stamps_ms for each in several),
        "violations": sum(len(each.violations) for each in several),
    }


def end_figures(several: Sequence[Burial]) -> dict[str, Any]:
    """Return what became of the task that kills its worker, over all trials."""
    return {
        "starts": [each.starts for each in several],
        "workers": [each.workers for each in several],
        "buried": sum(each.letters > 0 for each in several),
        "bystanders_buried": sum(each.bystanders for each in several),
        "results": sorted({" ".join(each.result) for each in several}),
        "chords": sorted({" ".join(each.chord) for each in several}),
        "seconds": [round(each.seconds, 1) for each in several],
        "violations": sum(len(each.violations) for each in several),
    }


def trial_table(
    trials: Mapping[tuple[str, str], Sequence[Trial]], wrong: Mapping[tuple[str, str], object]
) -> str:
    rows: list[list[object]] = []
    for (pool, fault), several in trials.items():
        arm = arm_figures(several)
        rows.append([
            f"{fault}, {pool}", arm["taken"],
            *("-" if arm[word] is None else arm[word] / 1000 for word in ("median_ms", "max_ms")),
            arm["lost"], arm["duplicates"], arm["executed_again"], arm["refused"],
            f"{arm['used']}/{arm['slots']}", arm["pause_ms"] / 1000,
            "FAILED" if wrong[pool, fault] else "passed",
        ])  # fmt: skip
    kinds = sorted({(each.fault, each.how) for several in trials.values() for each in several})
    if not rows:
        return ""
    return "\n".join([
        table(
            ["fault, pool", "taken", "again s", "longest s", "lost", "settled twice",
             "run twice", "refused", "slots used", "pause s", "verdict"], rows,
        ),
        *(f"{fault}: {how}" for fault, how in kinds),
    ])  # fmt: skip


def burial_table(
    burials: Mapping[str, Sequence[Burial]], wrong: Mapping[tuple[str, str], object]
) -> str:
    rows: list[list[object]] = []
    for pool, several in burials.items():
        arm = end_figures(several)
        rows.append([
            f"{DEADLY}, {pool}", "/".join(map(str, arm["starts"])),
            "/".join(map(str, arm["workers"])), arm["buried"], arm["bystanders_buried"],
            ", ".join(arm["results"]), ", ".join(arm["chords"]),
            max(arm["seconds"]), "FAILED" if wrong[pool, DEADLY] else "passed",
        ])  # fmt: skip
    if not rows:
        return ""
    return table(
        ["", "starts", "workers killed", "buried", "others buried", "result", "chord",
         "longest s", "verdict"], rows,
    )  # fmt: skip
