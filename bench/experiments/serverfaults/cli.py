"""``python -m bench serverfaults``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from bench.experiments.serverfaults.account import Trial, failures
from bench.experiments.serverfaults.chart import draw
from bench.experiments.serverfaults.plan import FAULTS, Plan
from bench.experiments.serverfaults.run import trial
from bench.experiments.serverfaults.server import FaultServer
from bench.harness import environment
from bench.harness.measure import spread
from bench.harness.options import common, repetitions, server_kind
from bench.harness.report import emit, progress, table
from bench.harness.turns import turns

__all__ = ["command"]


@click.command("serverfaults")
@click.option("--fault", "names", multiple=True, type=click.Choice(list(FAULTS)), help="Only this.")
@click.option(
    "--chart", type=click.Path(dir_okay=False, path_type=Path), help="Draw the times as a PNG."
)
@repetitions(3)
@server_kind
@common
def command(
    names: tuple[str, ...],
    chart: Path | None,
    repetitions: int,
    server: str,
    as_json: bool,
    save: Path | None,
) -> None:
    """Restart, flush, fill, block, demote and misdate the server: what does each cost?"""
    plan, start = Plan(), environment.describe()
    trials: dict[str, list[Trial]] = {name: [] for name in names or FAULTS}
    with FaultServer(server) as broker:
        for repetition, name in turns(repetitions, tuple(trials)):
            found = trial(name, FAULTS[name], plan, server, broker.url)
            trials[name].append(found)
            broken = failures(found, FAULTS[name], plan)
            progress(
                f"serverfaults {repetition + 1}/{repetitions} {name}: "
                + ("passed" if not broken else "FAILED: " + "; ".join(broken))
            )
        version = broker.version
    broken_of = {
        name: [failures(each, FAULTS[name], plan) for each in kept] for name, kept in trials.items()
    }
    passed = not any(any(several) for several in broken_of.values())
    if chart is not None:
        draw(trials, chart, plan)
    emit(
        table(
            ["fault", "dispatch s", "settlement s", "lost", "lost after", "settled twice",
             "started again", "verify", "log lines/s", "cpu %", "verdict"],
            [_row(name, kept, broken_of[name]) for name, kept in trials.items()],
        )
        + f"\n{'passed' if passed else 'FAILED'}",
        {
            "experiment": "serverfaults",
            "passed": passed,
            "arms": {name: _arm(kept, broken_of[name]) for name, kept in trials.items()},
            "plan": asdict(plan),
            "repetitions": repetitions,
            "environment": {**start, "servers": [version]},
        },
        as_json,
        save,
    )  # fmt: skip
    for name, several in broken_of.items():
        for broken in filter(None, several):
            raise click.ClickException(f"{name}: {broken[0]}")


def _times(kept: Sequence[Trial], what: str) -> list[float]:
    return [seconds for each in kept if (seconds := getattr(each, what)) is not None]


def _row(name: str, kept: Sequence[Trial], broken: Sequence[Sequence[str]]) -> list[object]:
    def worst(word: str) -> int:
        return max(int(getattr(each, word)) for each in kept)

    cpu = [share for each in kept for share in each.cpu.values()]
    return [
        name,
        *(
            max(times) if len(times := _times(kept, what)) == len(kept) else "never"
            for what in ("dispatch", "settlement")
        ),
        max(each.lost.before for each in kept),
        max(each.lost.after for each in kept),
        worst("settled_twice"),
        worst("again"),
        max(len(each.violations) for each in kept),
        max(lines.most for each in kept for lines in each.log.values()),
        f"{100 * max(cpu):.1f}" if cpu else "-",
        "FAILED" if any(broken) else "passed",
    ]


def _arm(kept: Sequence[Trial], broken: Sequence[Sequence[str]]) -> Mapping[str, Any]:
    spreads: dict[str, dict[str, float]] = {
        what: {key: round(value, 3) for key, value in spread(times)._asdict().items()}
        for what in ("dispatch", "settlement")
        if (times := _times(kept, what))
    }
    return {
        "words": FAULTS[kept[0].fault].words,
        "passed": not any(broken),
        "broken": [word for several in broken for word in several],
        "seconds": spreads,
        "standstill": round(max(each.standstill for each in kept), 3),
        "lost": max(each.lost.before for each in kept),
        "lost_unrun": max(each.lost.unrun for each in kept),
        "lost_after": max(each.lost.after for each in kept),
        "oldest_lost_s": round(max(each.lost.oldest for each in kept), 3),
        "duplicates": max(each.settled_twice for each in kept),
        "started_again": max(each.again for each in kept),
        "log_lines_per_second": max(lines.most for each in kept for lines in each.log.values()),
        "cpu": max((share for each in kept for share in each.cpu.values()), default=None),
        "unseen": sorted({word for each in kept for word in each.unseen}),
        "trials": [_raw(each) for each in kept],
    }


def _raw(each: Trial) -> dict[str, Any]:
    return {**asdict(each), "lost": each.lost._asdict()}
