"""What is run, how small, and what each experiment has to leave behind.

All but the soak: it needs its time, and the tests of faults run it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["STEPS", "Step"]

#: Plots of every run of cells that measures latency.
_LATENCY = "latency tail_ratio missed_deadlines longest_wait throughput utilisation jain"
_SMALL, _FAILING, _CROWDED = (
    Path(__file__).with_name(f"{name}.toml") for name in ("small", "failing", "crowded")
)


@dataclass(frozen=True, slots=True)
class Step:
    """One command: ``python -m bench EXPERIMENT ARGUMENTS --json``.

    Its JSON has to hold something at every path of ``wants`` (dots between the words). With
    ``plots`` it also leaves a folder, which has to be complete and have these. ``codes`` are the
    exit codes of a run that did all it had to, whatever it found out.
    """

    name: str
    experiment: str
    arguments: tuple[str, ...]
    wants: tuple[str, ...]
    plots: tuple[str, ...] | None = None
    codes: tuple[int, ...] = (0,)


def _cells(
    experiment: str, arguments: str, plots: str, profile: object = _SMALL, name: str = ""
) -> Step:
    """Return a step that leaves a folder; words have spaces between them."""
    return Step(
        name or experiment, experiment, ("--profile", str(profile), *arguments.split()),
        ("cells", "verdicts", "report", "environment.servers"), tuple(plots.split()),
    )  # fmt: skip


def _json(
    experiment: str,
    arguments: str,
    wants: str,
    codes: tuple[int, ...] = (0,),
) -> Step:
    """Return a step that leaves nothing but its JSON; words have spaces between them."""
    paths = (*wants.split(), "environment.servers")
    return Step(experiment, experiment, tuple(arguments.split()), paths, codes=codes)


STEPS = (
    _cells("matrix", "", f"{_LATENCY} tenants_p95 priorities_p95"),
    _cells("matrix", "--policy wfq --workload uniform", _LATENCY, _FAILING, "failing"),
    _cells("control", "", f"{_LATENCY} jain_competing", _CROWDED),
    _cells("sweep", "--load 0.5 --load 1.5", "sweep"),
    _cells("realwork", "", _LATENCY),
    _cells("repetitions", "--repetitions 2", _LATENCY),
    _cells(
        "headtohead",
        "--arm redis --arm redis-priority --arm tenant-queues --arm tq-wfq",
        "rivals crossover",
        "smoke",
    ),
    # Whether the gate is passed is not asked of a machine that may be busy.
    _json(
        "fairgate",
        "--repetitions 1 --window 1 2.5",
        "bounds windows.tq-wfq windows.redis-priority",
        codes=(0, 2),
    ),
    _json(
        "priority",
        "--repetitions 1 --tasks 40 --sleep 5 --arm redis --arm tq-priority",
        "in_front.redis in_front.tq-priority",
    ),
    _json(
        "crash",
        "--repetitions 1 --tasks 40 --held 20 --settled 4 --lease 2",
        "arms.tq arms.redis",
    ),
    _json(
        "failover",
        "--trials 1 --ttl 1 --rate 200 --seconds 2 --afterwards 1 --untimed "
        "--arm graceful --arm crash",
        "arms.graceful.median_ms arms.crash.max_ms",
    ),
    # An exit code of 2: a time was missed, which is not asked of a machine that may be busy.
    _json(
        "partition",
        "--repetitions 1 --arm leader-up-long",
        "passed arms.leader-up-long",
        codes=(0, 2),
    ),
    _json(
        "workerloss",
        "--pool threads --fault kill --lease 3 --repetitions 1",
        "passed arms.threads/kill.median_ms",
        codes=(0, 2),
    ),
    _json(
        "storefault",
        "--trials 1 --held 3 --arm cut-min-replicas",
        "arms.cut-min-replicas.epochs_given_twice arms.cut-min-replicas.refused",
    ),
    _json(
        "serverfaults",
        "--fault flushall --repetitions 1",
        "passed arms.flushall.trials",
        codes=(0, 2),
    ),
    _json(
        "guards",
        "--repetitions 1 --guard token --guard ingress-read",
        "passed arms.token arms.ingress-read",
    ),
    _json(
        "delaydrift",
        "--repetitions 1 --tasks 20 --pause 0 --arm tq-wfq --arm redis",
        "late_ms.tq-wfq late_ms.redis",
    ),
    _json("race", "--repetitions 1 --rounds 20", "raw.naive raw.scripted raw.tq"),
    _json(
        "retrystorm",
        "--repetitions 1 --tasks 300 --failures 1 --worker-repetitions 0",
        "fewer.fleet peaks.fleet",
    ),
    _json(
        "delayed",
        "--repetitions 1 --waiting 1000 --burst 200 --drift 10 --rate 200 --ahead 2 --settle 0.5",
        "arms.tq",
    ),
    _json("ceiling", "--repetitions 1 --tasks 20000 --tenants 10 --policy wfq", "results"),
    _json(
        "drain",
        "--repetitions 1 --tasks 1500 --pool threads --rival redis --prefetch 4",
        "ratio.threads.redis.median",
    ),
    _json(
        "submit",
        "--repetitions 1 --tasks 300 --rival redis",
        "ratio.tq.redis.median ratio.tq_bulk.redis.median",
    ),
    _json(
        "latency",
        "--repetitions 1 --tasks 200 --rival redis --idle 2",
        "added_ms.tq.p99 idle_cores.tq",
    ),
    _json(
        "scrape",
        "--repetitions 1 --pending 2000 --tenants 50 --scrapes 20 --tasks 8000 --block 0.03 "
        "--settled 2048",
        "scrape_ms.p99.median cpu_ratio.median counters_us.median",
    ),
)
