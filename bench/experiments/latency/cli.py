"""``python -m bench latency``: added latency at half load, and the cost of idling."""

from __future__ import annotations

import contextlib
from dataclasses import asdict
from pathlib import Path

import click

from bench.experiments.latency.run import Load, half_load, idle
from bench.harness import environment
from bench.harness.arms import Arm, RabbitMQArm, RedisArm, TQArm
from bench.harness.cluster import POOLS
from bench.harness.errors import BenchError
from bench.harness.measure import percentile
from bench.harness.options import common, server_kind
from bench.harness.report import emit, progress, table
from bench.harness.servers import rabbitmq_server, redis_server

__all__ = ["command"]

PERCENTILES = (50.0, 99.0)


@click.command("latency")
@click.option("--tasks", default=3_000, show_default=True, type=click.IntRange(100))
@click.option(
    "--sleep", default=0.02, show_default=True, type=click.FloatRange(0.001),
    help="Seconds each task sleeps.",
)  # fmt: skip
@click.option("--pool", default="threads", show_default=True, type=click.Choice(tuple(POOLS)))
@click.option(
    "--rival", "rivals", multiple=True, type=click.Choice(("redis", "rabbitmq")),
    help="Only these.",
)  # fmt: skip
@click.option(
    "--idle", "idle_seconds", default=20.0, show_default=True, type=click.FloatRange(1.0),
    help="Seconds of watching the idle processes.",
)  # fmt: skip
@click.option("--seed", default=1, show_default=True, type=int)
@server_kind
@common
def command(
    tasks: int,
    sleep: float,
    pool: str,
    rivals: tuple[str, ...],
    idle_seconds: float,
    seed: int,
    server: str,
    as_json: bool,
    save: Path | None,
) -> None:
    """Time from delay() to the start of the task at half load, and the idle scheduler's CPU."""
    start = environment.describe()
    missing: dict[str, str] = {}
    # Half of what the pool's slots can do when every task only sleeps.
    load = Load(POOLS[pool][1] / sleep / 2, sleep, tasks, seed)
    late: dict[str, list[float]] = {}
    with contextlib.ExitStack() as stack:
        redis = stack.enter_context(redis_server(server))
        versions = [redis.version]
        ours = TQArm(redis)
        arms: list[Arm] = [ours]
        if not rivals or "redis" in rivals:
            arms.append(RedisArm(redis))
        if not rivals or "rabbitmq" in rivals:
            try:
                rabbitmq = stack.enter_context(rabbitmq_server())
            except BenchError as error:
                missing["rabbitmq"] = error.message
            else:
                versions.append(rabbitmq.version)
                arms.append(RabbitMQArm(rabbitmq))
        for arm in arms:
            late[arm.name] = half_load(arm, pool, load)
            progress(f"latency {arm.name}: p50 {percentile(late[arm.name], 50):.2f} ms")
        resting = {arm.name: idle(arm, pool, idle_seconds) for arm in arms}
    added = {
        name: {f"p{q:g}": percentile(values, q) for q in PERCENTILES}
        for name, values in late.items()
    }
    rows = [
        [name, *added[name].values(), *(f"{share:.2%}" for share in asdict(resting[name]).values())]
        for name in late
    ]
    text = table(["arm", "p50 ms", "p99 ms", "idle scheduler", "idle worker", "idle server"], rows)
    emit(
        "\n".join([text, *(f"not run: {key}: {why}" for key, why in missing.items())]),
        {
            "experiment": "latency",
            "added_ms": added,
            "idle_cores": {name: asdict(share) for name, share in resting.items()},
            "load": {**asdict(load), "pool": pool},
            "raw_ms": {
                name: [round(value, 3) for value in values] for name, values in late.items()
            },
            "missing": missing,
            "environment": {**start, "servers": versions},
        },
        as_json,
        save,
    )
