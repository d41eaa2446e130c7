"""``python -m bench submit``: calls per second of one sending process."""

from __future__ import annotations

from pathlib import Path

import click

from bench.harness import environment
from bench.harness.arms import Arm, TQArm
from bench.harness.cluster import produce
from bench.harness.errors import BenchError
from bench.harness.lab import Lab
from bench.harness.measure import paired_ratio, spread
from bench.harness.options import common, repetitions, server_kind
from bench.harness.report import emit, progress, table
from bench.harness.rivals import not_run, rivals
from bench.harness.turns import turns

__all__ = ["command"]

BULK = "bench.experiments.submit.bulk"
RIVALS = ("redis", "rabbitmq")
#: Tasks in bulk for one of ``delay()``, so that both take about as long.
BULK_FACTOR = 10


@click.command("submit")
@click.option("--tasks", default=10_000, show_default=True, type=click.IntRange(100))
@click.option(
    "--rival", "names", multiple=True, type=click.Choice(RIVALS), default=RIVALS,
    help="Only these.",
)  # fmt: skip
@repetitions(5)
@server_kind
@common
def command(
    tasks: int,
    names: tuple[str, ...],
    repetitions: int,
    server: str,
    as_json: bool,
    save: Path | None,
) -> None:
    """Send from one process: delay() and bulk submit against stock delay()."""
    start = environment.describe()
    with Lab(server) as lab:
        others, missing = rivals(lab, names)
        ours = TQArm(lab.redis)
        arms: list[Arm] = [ours, *others]
        rates, cpu = _measure(ours, arms, tasks, repetitions)
        versions = sorted(lab.versions.values())
    ratio = {
        ours_name: {
            arm.name: paired_ratio(rates[ours_name], rates[arm.name])._asdict() for arm in arms[1:]
        }
        for ours_name in ("tq", "tq_bulk")
    }
    ratio["tq_bulk"]["tq"] = paired_ratio(rates["tq_bulk"], rates["tq"])._asdict()
    rows = [
        [
            name,
            *spread(kept),
            spread(cpu[name]).median,
            *(_against(ratio, name, arm.name) for arm in arms),
        ]
        for name, kept in rates.items()
    ]
    headers = ["arm", "tasks/s", "min", "max", "CPU us", *(f"x {arm.name}" for arm in arms)]
    emit(
        "\n".join([table(headers, rows), *not_run(missing)]),
        {
            "experiment": "submit",
            "ratio": ratio,
            "rates": {name: spread(kept)._asdict() for name, kept in rates.items()},
            "cpu_us": {name: spread(kept)._asdict() for name, kept in cpu.items()},
            "raw": rates,
            "tasks": tasks,
            "repetitions": repetitions,
            "missing": missing,
            "environment": {**start, "servers": versions},
        },
        as_json,
        save,
    )


def _measure(
    ours: TQArm, arms: list[Arm], tasks: int, repetitions: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Return rates and the sender's CPU microseconds per task by arm.

    The order of the arms turns round every repetition.
    """
    rates: dict[str, list[float]] = {}
    cpu: dict[str, list[float]] = {}
    plan: list[tuple[str, Arm, str, int]] = [
        *((arm.name, arm, "bench.harness.producer", tasks) for arm in arms),
        ("tq_bulk", ours, BULK, tasks * BULK_FACTOR),
    ]
    for repetition, (name, arm, program, count) in turns(repetitions, plan):
        arm.reset()
        measured = produce(arm, count, program=program)
        if arm.left() != measured["sent"]:
            raise BenchError(f"{name}: {measured['sent']} sent, {arm.left()} arrived")
        rate = measured["timed"] / measured["seconds"]
        rates.setdefault(name, []).append(rate)
        cpu.setdefault(name, []).append(measured["cpu"] / measured["timed"] * 1e6)
        progress(f"submit {repetition + 1}/{repetitions} {name}: {rate:,.0f}/s")
    return rates, cpu


def _against(ratio: dict[str, dict[str, dict[str, float]]], name: str, rival: str) -> str:
    found = ratio.get(name, {}).get(rival)
    return f"{found['median']:.2f}" if found else "-"
