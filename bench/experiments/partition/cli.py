"""``python -m bench partition``."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from bench.experiments.partition.account import Account, Shares, faults
from bench.experiments.partition.arms import ARMS, Arm, Plan, named
from bench.experiments.partition.chart import draw
from bench.experiments.partition.run import Trial, partition
from bench.harness import environment
from bench.harness.measure import spread
from bench.harness.options import common, repetitions, server_kind
from bench.harness.report import emit, progress, table
from bench.harness.turns import turns

__all__ = ["command"]


@click.command("partition")
@click.option(
    "--ttl", default=Plan().ttl, show_default=True, type=click.FloatRange(0.5, 60),
    help="Seconds of the leader's lease.",
)  # fmt: skip
@click.option(
    "--lease", default=Plan().lease, show_default=True, type=click.FloatRange(2, 600),
    help="Seconds of a worker's lease.",
)  # fmt: skip
@click.option(
    "--arm", "arms", multiple=True, type=click.Choice([arm.name for arm in ARMS]),
    help="Only these.",
)  # fmt: skip
@click.option(
    "--chart", type=click.Path(dir_okay=False, path_type=Path), help="Draw the arms as a PNG."
)
@repetitions(3)
@server_kind
@common
def command(
    ttl: float,
    lease: float,
    arms: tuple[str, ...],
    chart: Path | None,
    repetitions: int,
    server: str,
    as_json: bool,
    save: Path | None,
) -> None:
    """Cut the leader or a worker off from a healthy server: who dispatches, who settles?"""
    plan = replace(Plan(), ttl=ttl, lease=lease)
    start = environment.describe()
    chosen = [named(name) for name in arms] or list(ARMS)
    trials: dict[str, list[Trial]] = {arm.name: [] for arm in chosen}
    broken: dict[str, list[str]] = {arm.name: [] for arm in chosen}
    for repetition, arm in turns(repetitions, chosen):
        trial = partition(arm, plan, server, seed=repetition + 1)
        trials[arm.name].append(trial)
        wrong = faults(arm, plan, trial.account)
        broken[arm.name] += wrong
        progress(
            f"partition {repetition + 1}/{repetitions} {arm.name}: "
            f"{trial.account.resumed:.2f} s, {'; '.join(wrong) or 'passed'}"
        )
    if chart is not None:
        draw({name: several[0] for name, several in trials.items()}, chart)
    passed = {name: not wrong for name, wrong in broken.items()}
    emit(
        table(
            ["arm", "cut s", "resumed s", "promised s", "dispatched", "settled", "refused",
             "run again", "stale", "lost", "settled twice", "verdict"],
            [_row(arm, plan, [each.account for each in trials[arm.name]], passed[arm.name])
             for arm in chosen],
        ) + "\ndispatched, settled: by the side that was cut off / by others, while it was",
        {
            "experiment": "partition",
            "passed": passed,
            "broken": broken,
            "arms": {arm.name: _result(arm, plan, trials[arm.name]) for arm in chosen},
            "plan": asdict(plan),
            "repetitions": repetitions,
            "environment": {
                **start,
                "servers": sorted({each.server for kept in trials.values() for each in kept}),
            },
        },
        as_json,
        save,
    )  # fmt: skip
    wrong = [f"{name}: {words[0]}" for name, words in broken.items() if words]
    if wrong:
        raise click.ClickException(f"the partition failed: {wrong[0]}")


def _shares(several: list[Account], word: str) -> str:
    """Return the sums over all trials while the side was cut off."""
    found: list[Shares] = [getattr(each, word)["during"] for each in several]
    return f"{sum(each.cut_off for each in found):,}/{sum(each.other for each in found):,}"


def _row(arm: Arm, plan: Plan, several: list[Account], passed: bool) -> list[object]:
    return [
        arm.name,
        arm.seconds(plan),
        max(each.resumed for each in several),
        arm.promised(plan),
        _shares(several, "dispatched") if arm.side == "leader" else "-",
        _shares(several, "settled") if arm.side == "worker" else "-",
        sum(each.writes_refused + each.settlements_refused for each in several),
        sum(each.again for each in several),
        sum(each.stale for each in several),
        sum(len(each.lost) for each in several),
        sum(len(each.settled_twice) for each in several),
        "passed" if passed else "FAILED",
    ]


def _result(arm: Arm, plan: Plan, trials: list[Trial]) -> dict[str, Any]:
    several = [each.account for each in trials]
    resumed = spread([each.resumed for each in several])
    return {
        "median_ms": round(resumed.median * 1000),
        "max_ms": round(resumed.max * 1000),
        "promised_ms": round(arm.promised(plan) * 1000),
        "lost": sum(len(each.lost) for each in several),
        "duplicates": sum(len(each.settled_twice) for each in several),
        "stale_dispatches": sum(each.stale for each in several),
        "writes_refused": sum(each.writes_refused for each in several),
        "settlements_refused": sum(each.settlements_refused for each in several),
        "run_again": sum(each.again for each in several),
        "trials": [asdict(each) for each in several],
    }
