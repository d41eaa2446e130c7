"""``python -m bench storefault``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from bench.experiments.storefault.chart import draw
from bench.experiments.storefault.judge import failures, summary
from bench.experiments.storefault.plan import ARMS, Plan
from bench.experiments.storefault.run import Trial, trial
from bench.harness import environment
from bench.harness.options import common, server_kind
from bench.harness.report import emit, progress, table
from bench.harness.turns import turns

__all__ = ["command"]

USUAL = Plan()


@click.command("storefault")
@click.option("--trials", default=3, show_default=True, type=click.IntRange(1))
@click.option("--arm", "arms", multiple=True, type=click.Choice(list(ARMS)), help="Only these.")
@click.option(
    "--rate", default=USUAL.rate, show_default=True, type=click.FloatRange(10),
    help="Tasks submitted per second.",
)  # fmt: skip
@click.option(
    "--held", default=USUAL.held, show_default=True, type=click.FloatRange(3, 12),
    help="Seconds from the fault, and the leader's death, until the primary is killed.",
)  # fmt: skip
@click.option("--seed", default=1, show_default=True)
@click.option(
    "--chart", type=click.Path(dir_okay=False, path_type=Path), help="Draw the arms as a PNG."
)
@server_kind
@common
def command(
    trials: int,
    arms: tuple[str, ...],
    rate: float,
    held: float,
    seed: int,
    chart: Path | None,
    server: str,
    as_json: bool,
    save: Path | None,
) -> None:
    """Kill the primary under Sentinel: what is destroyed, and is an epoch given twice?"""
    plan = Plan(rate=rate, held=held, seconds=USUAL.seconds + held - USUAL.held)
    start = environment.describe()
    found: dict[str, list[Trial]] = {name: [] for name in arms or ARMS}
    version = ""
    for number, name in turns(trials, tuple(found)):
        one = trial(server, plan, name, seed + number)
        found[name].append(one)
        version = one.server
        told = "; ".join(failures(one)) or "as expected"
        progress(
            f"storefault {number + 1}/{trials} {name}: epochs {list(one.account.epochs)}, "
            f"{one.account.destroyed} destroyed, {one.account.refused} refused: {told}"
        )
    wrong = {
        name: [f"trial {number}: {word}" for number, each in enumerate(several, 1)
               for word in failures(each)]
        for name, several in found.items()
    }  # fmt: skip
    figures = {name: summary(several) for name, several in found.items()}
    passed = not any(wrong.values())
    if chart is not None:
        draw(figures, chart)
    emit(
        _table(figures, wrong) + f"\n{'passed' if passed else 'FAILED'}",
        {
            "experiment": "storefault",
            "passed": passed,
            "failed": {name: words for name, words in wrong.items() if words},
            "arms": figures,
            "plan": asdict(plan),
            "raw": {name: [asdict(each) for each in several] for name, several in found.items()},
            "environment": {**start, "servers": [version]},
        },
        as_json,
        save,
    )
    first = next(((name, words[0]) for name, words in wrong.items() if words), None)
    if first is not None:
        raise click.ClickException(f"storefault, {first[0]}, {first[1]}")


def _table(figures: Mapping[str, Mapping[str, Any]], wrong: Mapping[str, Sequence[str]]) -> str:
    def middle(times: Mapping[str, float] | None) -> object:
        return "-" if times is None else times["median"] / 1000

    return table(
        ["arm", "trials", "epochs twice", "accepted", "refused", "unknown", "destroyed",
         "of these run", "run again", "completed", "accepts s", "dispatches s", "verdict"],
        [
            [name, each["trials"], each["epochs_given_twice"], each["accepted"], each["refused"],
             each["unknown"], each["destroyed"], each["destroyed_run"], each["run_again"],
             each["completed"], middle(each["accepting_ms"]), middle(each["dispatching_ms"]),
             "FAILED" if wrong[name] else "passed"]
            for name, each in figures.items()
        ],
    )  # fmt: skip
