"""``python -m bench workerloss``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from bench.experiments.workerloss.burial import Burial, burial
from bench.experiments.workerloss.chart import draw
from bench.experiments.workerloss.faults import FAULTS
from bench.experiments.workerloss.figures import (
    arm_figures,
    burial_table,
    end_figures,
    recoveries,
    trial_table,
)
from bench.experiments.workerloss.names import DEADLY
from bench.experiments.workerloss.stage import SLOTS, Plan
from bench.experiments.workerloss.trial import Trial, trial
from bench.experiments.workerloss.verdict import of_burial, of_trial
from bench.harness import environment
from bench.harness.options import common, repetitions, server_kind
from bench.harness.report import emit, progress
from bench.harness.servers import redis_server
from bench.harness.turns import turns

__all__ = ["command"]


@click.command("workerloss")
@click.option("--pool", "pools", multiple=True, type=click.Choice(list(SLOTS)), help="Only these.")
@click.option(
    "--fault", "faults", multiple=True, type=click.Choice([*FAULTS, DEADLY]), help="Only these."
)
@click.option(
    "--lease", default=Plan().lease, show_default=True, type=click.FloatRange(2, 300),
    help="Seconds.",
)  # fmt: skip
@click.option(
    "--chart", type=click.Path(dir_okay=False, path_type=Path), help="Draw the recoveries as a PNG."
)
@repetitions(3)
@server_kind
@common
def command(
    pools: tuple[str, ...],
    faults: tuple[str, ...],
    lease: float,
    chart: Path | None,
    repetitions: int,
    server: str,
    as_json: bool,
    save: Path | None,
) -> None:
    """How long until a lost worker's tasks run again, and is everything right afterwards?"""
    start, plan = environment.describe(), Plan(lease, server)
    with redis_server(server) as one:  # every trial has a server of its own, of this kind
        version = one.version
    arms = [(pool, fault) for fault in faults or [*FAULTS, DEADLY] for pool in pools or SLOTS]
    trials: dict[tuple[str, str], list[Trial]] = {}
    burials: dict[str, list[Burial]] = {}
    wrong: dict[tuple[str, str], list[str]] = {arm: [] for arm in arms}
    for repetition, (pool, fault) in turns(repetitions, arms):
        label = f"workerloss-{pool}-{fault}-{repetition + 1}"
        if fault == DEADLY:
            buried = burial(pool, plan, label)
            burials.setdefault(pool, []).append(buried)
            words = of_burial(buried)
        else:
            found = trial(pool, fault, plan, label)
            trials.setdefault((pool, fault), []).append(found)
            words = of_trial(found, lease)
        wrong[pool, fault] += words
        progress(
            f"workerloss {repetition + 1}/{repetitions} {pool}, {fault}: "
            f"{'; '.join(words) or 'passed'}"
        )
    passed = not any(wrong.values())
    if chart is not None:
        draw({arm: recoveries(several) for arm, several in trials.items()}, lease, chart)
    parts = [trial_table(trials, wrong), burial_table(burials, wrong)]
    emit(
        "\n\n".join(filter(None, parts)) + f"\n{'passed' if passed else 'FAILED'}",
        {
            "experiment": "workerloss",
            "passed": passed,
            "failed": {f"{pool}/{fault}": words for (pool, fault), words in wrong.items() if words},
            "arms": {
                f"{pool}/{fault}": arm_figures(each) for (pool, fault), each in trials.items()
            },
            "burials": {pool: end_figures(each) for pool, each in burials.items()},
            "lease": lease,
            "repetitions": repetitions,
            "raw": {
                "trials": [asdict(each) for several in trials.values() for each in several],
                "burials": [asdict(each) for several in burials.values() for each in several],
            },
            "environment": {**start, "servers": [version]},
        },
        as_json,
        save,
    )
    first = next(((arm, words) for arm, words in wrong.items() if words), None)
    if first is not None:
        (pool, fault), words = first
        raise click.ClickException(f"workerloss, {pool}, {fault}: {words[0]}")
