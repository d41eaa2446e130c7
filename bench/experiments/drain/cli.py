"""``python -m bench drain``: the plan of the runs, and the report made from them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from bench.experiments.drain.run import Run, drain
from bench.harness import environment
from bench.harness.arms import Arm, RabbitMQArm, RedisArm, RedisPlusArm, TQArm
from bench.harness.cluster import POOLS
from bench.harness.errors import BenchError
from bench.harness.interpreters import python_313
from bench.harness.measure import paired_ratio
from bench.harness.options import common, server_kind
from bench.harness.prefetch import best_prefetch
from bench.harness.report import emit, progress, table
from bench.harness.servers import rabbitmq_server, redis_server
from bench.harness.turns import turns

__all__ = ["command"]

RIVALS = ("redis", "rabbitmq", "redis-plus")
#: Celery's prefetch multipliers among which each stock arm's best is looked for.
PREFETCH = (4, 16, 64)


class Comparison:
    """Ours and its rivals in one Python, run next to each other in every repetition."""

    def __init__(self, label: str, python: str, arms: Sequence[Arm]) -> None:
        self.label, self.python, self.arms = label, python, arms
        self.runs: dict[tuple[str, str], list[Run]] = {}
        self.prefetch: dict[tuple[str, str], int] = {}

    def run(self, pool: str, tasks: int, repetitions: int, prefetch: int | None) -> None:
        """Fill ``runs`` for one pool; the order of the arms turns round every repetition."""
        for arm in self.arms:
            if not arm.scheduled:
                self.prefetch[pool, arm.name] = prefetch or self._best(arm, pool, tasks // 4)
        for repetition, arm in turns(repetitions, self.arms):
            run = drain(
                arm, pool, tasks,
                prefetch=self.prefetch.get((pool, arm.name)), python=self.python,
            )  # fmt: skip
            self.runs.setdefault((pool, arm.name), []).append(run)
            progress(
                f"drain {self.label} {pool} {repetition + 1}/{repetitions} "
                f"{arm.name}: {run.rate:,.0f}/s"
            )

    def _best(self, arm: Arm, pool: str, tasks: int) -> int:
        found = best_prefetch(
            PREFETCH, lambda each: drain(arm, pool, tasks, prefetch=each, python=self.python).rate
        )
        progress(
            f"drain {self.label} {pool} {arm.name}: prefetch "
            + ", ".join(f"{key} {rate:,.0f}/s" for key, rate in found.figures.items())
            + f"; using {found.best}"
        )
        return found.best

    def ratio(self, pool: str, rival: str) -> dict[str, float]:
        """Return how many times faster than ``rival`` we were, repetition by repetition."""
        ours = [run.rate for run in self.runs[pool, "tq"]]
        theirs = [run.rate for run in self.runs[pool, rival]]
        return paired_ratio(ours, theirs)._asdict()

    def raw(self) -> list[dict[str, object]]:
        """Return every run, for the JSON."""
        return [
            {
                "comparison": self.label,
                "pool": pool,
                "arm": arm,
                "prefetch": self.prefetch.get((pool, arm)),
                "runs": [asdict(run) for run in runs],
            }
            for (pool, arm), runs in self.runs.items()
        ]

    def rows(self) -> list[list[object]]:
        """Return the medians, for the table."""
        rows: list[list[object]] = []
        for (pool, arm), runs in self.runs.items():
            middle = sorted(runs, key=lambda run: run.rate)[len(runs) // 2]
            ratio = "-" if arm == "tq" else "{median:.2f} ({min:.2f}..{max:.2f})".format(
                **self.ratio(pool, arm)
            )  # fmt: skip
            rows.append(
                [pool, arm, self.label, self.prefetch.get((pool, arm), "own"), middle.rate,
                 ratio, middle.worker_us, middle.server_us, middle.scheduler_us]
            )  # fmt: skip
        return rows


@click.command("drain")
@click.option("--tasks", default=20_000, show_default=True, type=click.IntRange(100))
@click.option("--repetitions", default=5, show_default=True, type=click.IntRange(1))
@click.option("--pool", "pools", multiple=True, type=click.Choice(tuple(POOLS)), help="Only these.")
@click.option("--rival", "rivals", multiple=True, type=click.Choice(RIVALS), help="Only these.")
@click.option("--prefetch", type=click.IntRange(1), help="Stock multiplier; default: the best one.")
@click.option("--policy", default="wfq", show_default=True, help="What the scheduler ranks by.")
@server_kind
@common
def command(
    tasks: int,
    repetitions: int,
    pools: tuple[str, ...],
    rivals: tuple[str, ...],
    prefetch: int | None,
    policy: str,
    server: str,
    as_json: bool,
    save: Path | None,
) -> None:
    """Empty a queue of no-op tasks: our worker and scheduler against stock Celery."""
    pools, wanted = pools or tuple(POOLS), rivals or RIVALS
    missing: dict[str, str] = {}
    start = environment.describe()
    with contextlib.ExitStack() as stack:
        redis = stack.enter_context(redis_server(server))
        versions = [redis.version]
        ours = TQArm(redis, policy=policy)
        arms: list[Arm] = [ours]
        if "redis" in wanted:
            arms.append(RedisArm(redis))
        if "rabbitmq" in wanted:
            try:
                rabbitmq = stack.enter_context(rabbitmq_server())
            except BenchError as error:
                missing["rabbitmq"] = error.message
            else:
                versions.append(rabbitmq.version)
                arms.append(RabbitMQArm(rabbitmq))
        comparisons = []
        if len(arms) > 1:
            comparisons.append(Comparison(_label(), sys.executable, arms))
        if "redis-plus" in wanted:
            try:
                comparisons.append(Comparison("3.13", python_313(), [ours, RedisPlusArm(redis)]))
            except BenchError as error:
                missing["redis-plus"] = error.message
        for name, reason in missing.items():
            progress(f"drain without {name}: {reason}")
        if not comparisons:
            raise BenchError("; ".join(missing.values()))
        for pool in pools:
            for comparison in comparisons:
                comparison.run(pool, tasks, repetitions, prefetch)
    ratio: dict[str, dict[str, dict[str, float]]] = {pool: {} for pool in pools}
    for comparison in comparisons:
        for pool, arm in comparison.runs:
            if arm != "tq":
                ratio[pool][arm] = comparison.ratio(pool, arm)
    text = table(
        ["pool", "arm", "python", "prefetch", "tasks/s", "tq / arm", "worker us", "server us",
         "scheduler us"],
        [row for comparison in comparisons for row in comparison.rows()],
    )  # fmt: skip
    emit(
        "\n".join([text, *(f"not run: {name}: {reason}" for name, reason in missing.items())]),
        {
            "experiment": "drain",
            "ratio": ratio,
            "tasks": tasks,
            "repetitions": repetitions,
            "policy": policy,
            "raw": [entry for comparison in comparisons for entry in comparison.raw()],
            "missing": missing,
            "environment": {**start, "servers": versions},
        },
        as_json,
        save,
    )


def _label() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"
