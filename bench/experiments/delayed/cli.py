"""``python -m bench delayed``: what waiting tasks cost, and how exact they are."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from bench.experiments.delayed.run import burst, drift, rate, stage, waiting
from bench.harness import environment
from bench.harness.arms import RedisArm, TQArm
from bench.harness.measure import paired_ratio, percentile, spread
from bench.harness.options import common, server_kind
from bench.harness.report import emit, progress, table
from bench.harness.servers import redis_server

__all__ = ["command"]


@click.command("delayed")
@click.option(
    "--waiting", "wait_count", default=100_000, show_default=True, type=click.IntRange(1_000),
    help="Tasks that are due in an hour.",
)  # fmt: skip
@click.option(
    "--burst", "burst_count", default=20_000, show_default=True, type=click.IntRange(100),
    help="Tasks that are due at one instant.",
)  # fmt: skip
@click.option("--drift", "drift_count", default=100, show_default=True, type=click.IntRange(10))
@click.option("--rate", "rate_count", default=5_000, show_default=True, type=click.IntRange(100))
@click.option("--repetitions", default=3, show_default=True, type=click.IntRange(1))
@click.option(
    "--ahead", default=10.0, show_default=True, type=float,
    help="Least seconds from the first call of the burst to its instant.",
)  # fmt: skip
@click.option(
    "--settle", default=5.0, show_default=True, type=float,
    help="Seconds that memory is given to settle.",
)  # fmt: skip
@server_kind
@common
def command(
    wait_count: int,
    burst_count: int,
    drift_count: int,
    rate_count: int,
    repetitions: int,
    ahead: float,
    settle: float,
    server: str,
    as_json: bool,
    save: Path | None,
) -> None:
    """Let tasks wait: rate of sending, memory, exactness, and many that are due at once."""
    start = environment.describe()
    found: dict[str, dict[str, Any]] = {}
    with redis_server(server) as redis:
        arms = (TQArm(redis), RedisArm(redis))
        rates: dict[str, list[float]] = {"tq": [], "redis": [], "tq_bulk": []}
        for repetition in range(repetitions):
            for arm in arms if repetition % 2 == 0 else arms[::-1]:
                rates[arm.name].append(rate(arm, "single", rate_count))
            rates["tq_bulk"].append(rate(arms[0], "bulk", rate_count * 5))
            progress(f"delayed {repetition + 1}/{repetitions}: rates of sending")
        for arm in arms:
            with stage(arm) as made:
                memory = waiting(made, wait_count, settle)
                progress(f"delayed {arm.name}: {wait_count:,} tasks wait")
                late = drift(made, drift_count)
                progress(f"delayed {arm.name}: exactness")
                # Long enough to send it all first, at the rate that was measured just now.
                sending = burst_count / min(rates["tq_bulk" if arm is arms[0] else "redis"])
                spike = burst(made, burst_count, max(ahead, 2 + 2 * sending))
                progress(f"delayed {arm.name}: burst")
            found[arm.name] = {
                "memory": {
                    name: {**asdict(each), "growth": each.growth} for name, each in memory.items()
                },
                "late_ms": {f"p{q}": percentile(late, q) for q in (50, 99, 100)},
                "early": sum(each < 0 for each in late),
                "burst": asdict(spike),
                "raw_late_ms": [round(each, 2) for each in late],
            }
        version = redis.version
    text = table(["", "tq", "stock, Redis"], _rows(found, rates))
    emit(
        text,
        {
            "experiment": "delayed",
            "arms": found,
            "rates": {name: spread(kept)._asdict() for name, kept in rates.items()},
            "ratio": {
                name: paired_ratio(rates[name], rates["redis"])._asdict()
                for name in ("tq", "tq_bulk")
            },
            "raw_rates": rates,
            "load": {
                "waiting": wait_count, "burst": burst_count, "drift": drift_count,
                "rate": rate_count, "ahead_s": ahead, "settle_s": settle,
            },
            "repetitions": repetitions,
            "environment": {**start, "servers": [version]},
        },
        as_json,
        save,
    )  # fmt: skip


def _rows(found: dict[str, dict[str, Any]], rates: dict[str, list[float]]) -> list[list[object]]:
    ours, stock = found["tq"], found["redis"]

    def memory(arm: dict[str, Any], name: str) -> str:
        each = arm["memory"].get(name)
        if each is None:
            return "-"
        return f"{each['before']:.1f} -> {each['after']:.1f} ({each['growth']:+.0%})"

    rows: list[list[object]] = [
        [
            "apply_async(countdown=3600), calls/s",
            *(spread(rates[n]).median for n in ("tq", "redis")),
        ],
        ["in bulk, tasks/s", spread(rates["tq_bulk"]).median, "-"],
        ["worker's resident MiB, tasks waiting", memory(ours, "worker"), memory(stock, "worker")],
        ["leader's resident MiB, tasks waiting", memory(ours, "leader"), "-"],
    ]
    for title, part, word in (
        ("late by, median ms", "late_ms", "p50"),
        ("late by, p99 ms", "late_ms", "p99"),
        ("all of one instant have run, s", "burst", "seconds"),
        ("PING meanwhile, p99 ms", "burst", "ping_p99_ms"),
        ("longest script, ms (0 = none over 1)", "burst", "longest_script_ms"),
    ):
        rows.append([title, ours[part][word], stock[part][word]])
    return rows
