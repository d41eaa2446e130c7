"""``python -m bench ceiling``: the plan of the runs, and the report made from them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from bench.experiments.ceiling.fence import Fence, fence
from bench.experiments.ceiling.loops import Ceiling, ceiling
from bench.experiments.ceiling.workload import PAYLOAD
from bench.harness import environment
from bench.harness.measure import Spread
from bench.harness.options import common, server_kind
from bench.harness.report import emit, progress, table
from bench.harness.servers import redis_server

__all__ = ["command"]

POLICIES = ("fifo", "wfq", "priority", "edf")
#: Tasks of the run that compares live and inert scripts; its blocks are short, so fewer are enough.
FENCE_TASKS = 200_000


@click.command("ceiling")
@click.option("--tasks", default=400_000, show_default=True, type=click.IntRange(20_000))
@click.option("--repetitions", default=1, show_default=True, type=click.IntRange(1))
@click.option(
    "--policy", "policies", multiple=True, type=click.Choice(POLICIES),
    default=("fifo", "wfq"), show_default=True,
)  # fmt: skip
@click.option(
    "--tenants", multiple=True, type=click.IntRange(1), default=(10, 1_000, 100_000),
    show_default=True,
)  # fmt: skip
@click.option("--fence/--no-fence", "with_fence", default=True, help="Measure the fence's cost.")
@click.option("--seed", default=1, show_default=True, type=int)
@server_kind
@common
def command(
    tasks: int,
    repetitions: int,
    policies: tuple[str, ...],
    tenants: tuple[int, ...],
    with_fence: bool,
    seed: int,
    server: str,
    as_json: bool,
    save: Path | None,
) -> None:
    """Find the rates at which one scheduler admits, dispatches, and does both."""
    start = environment.describe()
    runs: dict[tuple[str, int], list[Ceiling]] = {}
    fences: dict[str, Fence] = {}
    with redis_server(server) as redis:
        for policy in policies:
            for number in tenants:
                for repetition in range(repetitions):
                    run = ceiling(redis, policy, number, tasks, seed + repetition)
                    runs.setdefault((policy, number), []).append(run)
                    progress(
                        f"ceiling {policy} {number:,} tenants {repetition + 1}/{repetitions}: "
                        f"admit {run.admit.per_s:,.0f}/s, dispatch {run.dispatch.per_s:,.0f}/s, "
                        f"both {run.end_to_end.per_s:,.0f}/s"
                    )
            if with_fence:
                fences[policy] = fence(redis, policy, 1_000, min(tasks, FENCE_TASKS), seed)
        version = redis.version
    results = [_result(policy, number, kept) for (policy, number), kept in runs.items()]
    costs = [cost for one in fences.values() for cost in (one.admit.median, one.dispatch.median)]
    emit(
        _text(results, fences),
        {
            "experiment": "ceiling",
            "results": results,
            "fence_cost": statistics.mean(costs) if costs else None,
            "fence": {
                policy: {name: cost._asdict() for name, cost in _spreads(one).items()}
                for policy, one in fences.items()
            },
            "decision_cost": {policy: _growth(results, policy) for policy in policies},
            "tasks": tasks,
            "payload_bytes": PAYLOAD,
            "repetitions": repetitions,
            "seed": seed,
            "environment": {**start, "servers": [version]},
        },
        as_json,
        save,
    )


def _spreads(one: Fence) -> dict[str, Spread]:
    return {
        "admit": one.admit,
        "dispatch": one.dispatch,
        "admit_wall": one.admit_wall,
        "dispatch_wall": one.dispatch_wall,
    }


def _result(policy: str, tenants: int, runs: Sequence[Ceiling]) -> dict[str, Any]:
    def middle(window: str, figure: str) -> float:
        return float(statistics.median(getattr(getattr(run, window), figure) for run in runs))

    return {
        "policy": policy,
        "tenants": tenants,
        "admit_per_s": middle("admit", "per_s"),
        "dispatch_per_s": middle("dispatch", "per_s"),
        "end_to_end_per_s": middle("end_to_end", "per_s"),
        "decision_cpu_us": middle("admit", "cpu_us") + middle("dispatch", "cpu_us"),
        "decision_script_us": middle("admit", "script_us") + middle("dispatch", "script_us"),
        "runs": [asdict(run) for run in runs],
    }


def _growth(results: Sequence[dict[str, Any]], policy: str) -> float:
    """Return CPU time per decision with the most tenants over that with the fewest."""
    mine = sorted(
        (row["tenants"], row["decision_cpu_us"]) for row in results if row["policy"] == policy
    )
    return float(mine[-1][1] / mine[0][1])


def _text(results: Sequence[dict[str, Any]], fences: dict[str, Fence]) -> str:
    columns = (
        "policy", "tenants", "admit_per_s", "dispatch_per_s", "end_to_end_per_s",
        "decision_cpu_us", "decision_script_us",
    )  # fmt: skip
    lines = [
        table(
            [
                "policy",
                "tenants",
                "admit/s",
                "dispatch/s",
                "both/s",
                "CPU us/task",
                "script us/task",
            ],
            [[result[column] for column in columns] for result in results],
        )
    ]
    for policy, one in fences.items():
        lines.append(
            f"fence, {policy}: admit {one.admit.median:+.2%}, dispatch {one.dispatch.median:+.2%} "
            "of the script's server time (median of pairs)"
        )
    return "\n".join(lines)
