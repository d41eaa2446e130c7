"""``python -m bench crash``: a worker is killed, and the books are balanced."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from bench.experiments.crash.arms import ARMS
from bench.experiments.crash.run import Crash, Plan, crash
from bench.harness import environment
from bench.harness.errors import BenchError
from bench.harness.measure import spread
from bench.harness.options import common, repetitions, server_kind
from bench.harness.report import emit, progress, table
from bench.harness.servers import redis_server
from bench.harness.turns import turns

__all__ = ["command"]


@click.command("crash")
@click.option("--tasks", default=200, show_default=True, type=click.IntRange(2, 10_000))
@click.option(
    "--held", default=100, show_default=True, type=click.IntRange(1, 500),
    help="Tasks that the worker holds when it is killed; as many threads.",
)  # fmt: skip
@click.option(
    "--settled", default=10, show_default=True, type=click.IntRange(1, 500),
    help="Of these, tasks whose settlement has reached the server.",
)  # fmt: skip
@click.option(
    "--lease", default=10, show_default=True, type=click.IntRange(2, 600),
    help="Seconds of our lease and of the visibility timeout of stock Celery.",
)  # fmt: skip
@click.option("--arm", "arms", multiple=True, type=click.Choice(ARMS), help="Only these.")
@repetitions(3)
@server_kind
@common
def command(
    tasks: int,
    held: int,
    settled: int,
    lease: int,
    arms: tuple[str, ...],
    repetitions: int,
    server: str,
    as_json: bool,
    save: Path | None,
) -> None:
    """Kill a worker that holds a hundred tasks: is one lost, or settled twice?"""
    if not settled <= held <= tasks:
        raise BenchError(
            f"--settled {settled} of --held {held} of --tasks {tasks}: no part can be the greater"
        )
    start, plan = environment.describe(), Plan(tasks, held, settled, lease)
    runs: dict[str, list[Crash]] = {name: [] for name in arms or ARMS}
    with redis_server(server) as redis:
        for repetition, name in turns(repetitions, tuple(runs)):
            found = crash(name, redis, plan)
            runs[name].append(found)
            progress(
                f"crash {repetition + 1}/{repetitions} {name}: {len(found.account.lost)} lost, "
                f"{len(found.account.settled_twice)} settled twice, "
                f"all settled after {found.all_settled:.1f} s"
            )
        version = redis.version
    passed = {name: all(each.passed for each in kept) for name, kept in runs.items()}
    emit(
        table(
            ["arm", "lost", "settled twice", "run again though settled", "executions",
             "first again s", "all settled s", "verdict"],
            [_row(name, kept, passed[name]) for name, kept in runs.items()],
        ),
        {
            "experiment": "crash",
            "passed": passed,
            "arms": {name: [_result(each) for each in kept] for name, kept in runs.items()},
            "plan": asdict(plan),
            "repetitions": repetitions,
            "environment": {**start, "servers": [version]},
        },
        as_json,
        save,
    )  # fmt: skip
    if not passed.get("tq", True):
        raise BenchError(
            "tq lost a task, settled one twice, ran one that was settled, or broke a promise"
        )


def _row(name: str, kept: list[Crash], passed: bool) -> list[object]:
    def worst(word: str) -> int:
        return max(len(getattr(each.account, word)) for each in kept)

    return [
        name,
        worst("lost"),
        worst("settled_twice"),
        worst("again"),
        ", ".join(f"{count} x {often}" for often, count in kept[-1].account.executions.items()),
        spread([each.first_again for each in kept]).median,
        spread([each.all_settled for each in kept]).median,
        "passed" if passed else "FAILED",
    ]


def _result(found: Crash) -> dict[str, Any]:
    return {**asdict(found), "passed": found.passed}
