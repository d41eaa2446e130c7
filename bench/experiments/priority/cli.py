"""``python -m bench priority``: critical tasks behind unimportant ones, and who is served first."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from bench.experiments.priority.order import Order
from bench.experiments.priority.run import serve
from bench.harness import environment
from bench.harness.arms import ARMS
from bench.harness.cell_options import Word
from bench.harness.cluster import POOLS
from bench.harness.lab import Lab
from bench.harness.measure import spread
from bench.harness.options import common, repetitions, server_kind
from bench.harness.report import emit, progress, table
from bench.harness.rivals import not_run, rivals
from bench.harness.turns import turns

__all__ = ["command"]

DEFAULT = ("redis", "redis-priority", "rabbitmq-priority", "tq-fifo", "tq-priority")
#: The arm that is held to the pass rule.
OURS = "tq-priority"
#: All but those that cannot be asked: ``tenant-queues`` has no queue for the one tenant, and
#: ``tq-none`` ranks nothing before the worker starts.
CHOICE = tuple(arm for arm in ARMS if arm not in ("tenant-queues", "tq-none"))


@click.command("priority")
@click.option(
    "--tasks", default=200, show_default=True, type=click.IntRange(10, 10_000),
    help="Unimportant tasks, and as many critical ones behind them.",
)  # fmt: skip
@click.option(
    "--sleep", default=10.0, show_default=True, type=click.FloatRange(0, 1_000),
    help="Milliseconds each task sleeps.",
)  # fmt: skip
@click.option("--pool", default="threads", show_default=True, type=click.Choice(tuple(POOLS)))
@click.option(
    "--arm", "names", multiple=True, type=Word(CHOICE), default=DEFAULT, show_default=True,
    help="Only these.",
)  # fmt: skip
@repetitions(5)
@server_kind
@common
def command(
    tasks: int,
    sleep: float,
    pool: str,
    names: tuple[str, ...],
    repetitions: int,
    server: str,
    as_json: bool,
    save: Path | None,
) -> None:
    """200 unimportant tasks, then 200 critical: how many of these are served first?"""
    start = environment.describe()
    runs: dict[str, list[Order]] = {}
    with Lab(server) as lab:
        arms, missing = rivals(lab, names)
        for repetition, arm in turns(repetitions, arms):
            found = serve(arm, pool, tasks, sleep / 1000)
            runs.setdefault(arm.name, []).append(found)
            progress(
                f"priority {repetition + 1}/{repetitions} {arm.name}: "
                f"{found.share:.1%} of the critical tasks before the first other one"
            )
        versions = sorted(lab.versions.values())
    shares = {arm.name: spread([each.share for each in runs[arm.name]]) for arm in arms}
    front = {arm.name: spread([each.in_front for each in runs[arm.name]]) for arm in arms}
    passed = all(each.share == 1 for each in runs[OURS]) if OURS in runs else None
    rows = [
        [name, *(f"{share:.1%}" for share in shares[name]), f"{front[name].median:.1%}"]
        for name in shares
    ]
    headers = ["arm", "before the first other", "min", "max", f"among the first {tasks}"]
    emit(
        "\n".join([table(headers, rows), *not_run(missing)]),
        {
            "experiment": "priority",
            "passed": passed,
            "share": {name: share._asdict() for name, share in shares.items()},
            "in_front": {name: share._asdict() for name, share in front.items()},
            "raw": {name: [asdict(each) for each in kept] for name, kept in runs.items()},
            "load": {"tasks": tasks, "sleep_ms": sleep, "pool": pool},
            "repetitions": repetitions,
            "missing": missing,
            "environment": {**start, "servers": versions},
        },
        as_json,
        save,
    )
