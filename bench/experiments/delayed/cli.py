"""``python -m bench delayed``: what waiting tasks cost, and how exact they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bench.experiments.delaydrift.run import drift
from bench.experiments.delayed.findings import Findings, summed_up
from bench.experiments.delayed.run import WARM_UP, burst, rate, waiting
from bench.harness import environment
from bench.harness.arms import Arm, RedisArm, TQArm
from bench.harness.measure import paired_ratio, spread
from bench.harness.options import common, repetitions, server_kind
from bench.harness.report import emit, progress, table
from bench.harness.servers import redis_server
from bench.harness.standing import standing
from bench.harness.turns import turns

__all__ = ["command"]

#: Seconds between the calls whose exactness is measured.
APART = 0.02


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
@click.option(
    "--ahead", default=10.0, show_default=True, type=float,
    help="Least seconds from the first call of the burst to its instant.",
)  # fmt: skip
@click.option(
    "--settle", default=5.0, show_default=True, type=float,
    help="Seconds that memory is given to settle.",
)  # fmt: skip
@repetitions(3)
@server_kind
@common
def command(
    wait_count: int,
    burst_count: int,
    drift_count: int,
    rate_count: int,
    ahead: float,
    settle: float,
    repetitions: int,
    server: str,
    as_json: bool,
    save: Path | None,
) -> None:
    """Let tasks wait: rate of sending, memory, exactness, and many that are due at once."""
    start = environment.describe()
    runs: dict[str, list[Findings]] = {"tq": [], "redis": []}
    with redis_server(server) as redis:
        arms: tuple[Arm, ...] = (TQArm(redis), RedisArm(redis))
        rates: dict[str, list[float]] = {"tq": [], "redis": [], "tq_bulk": []}
        for repetition, arm in turns(repetitions, arms):
            rates[arm.name].append(rate(arm, "single", rate_count))
            if arm.scheduled:
                rates["tq_bulk"].append(rate(arm, "bulk", rate_count * 5))
            progress(f"delayed {repetition + 1}/{repetitions} {arm.name}: rates of sending")
        for repetition, arm in turns(repetitions, arms):
            tell = f"delayed {repetition + 1}/{repetitions} {arm.name}: "
            with standing(arm, first=WARM_UP) as made:
                memory = waiting(made, redis.client, wait_count, settle)
                progress(f"{tell}{wait_count:,} tasks wait")
                late = drift(made, drift_count, APART, waiting=wait_count)
                progress(f"{tell}exactness")
                # Long enough to send it all first, at the rate that was measured just now.
                sending = burst_count / min(rates["tq_bulk" if arm.scheduled else "redis"])
                spike = burst(made, redis.client, burst_count, max(ahead, 2 + 2 * sending))
                progress(f"{tell}burst")
            runs[arm.name].append(Findings(memory, late, spike))
        version = redis.version
    found = {name: summed_up(kept) for name, kept in runs.items()}
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
