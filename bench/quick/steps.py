"""What is run, how small, and what each experiment has to leave behind."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["STEPS", "Step"]

#: Plots of every run of cells that measures latency.
_LATENCY = ("latency", "tail_ratio", "missed_deadlines", "longest_wait", "throughput",
            "utilisation", "jain")  # fmt: skip
_SMOKE = ("--profile", "smoke")
_SMALL, _FAILING = (
    ("--profile", str(Path(__file__).with_name(name))) for name in ("small.toml", "failing.toml")
)
_ONCE = ("--repetitions", "1")


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


def _cells(name: str, experiment: str, *arguments: str, plots: tuple[str, ...] = ()) -> Step:
    return Step(name, experiment, arguments, ("cells", "verdicts", "report"), plots)


STEPS = (
    _cells("matrix", "matrix", *_SMOKE,
           plots=(*_LATENCY, "jain_competing", "tenants_p95", "priorities_p95")),
    _cells("failing", "matrix", *_FAILING, "--policy", "wfq", "--workload", "uniform",
           plots=_LATENCY),
    _cells("control", "control", *_SMALL, plots=_LATENCY),
    _cells("sweep", "sweep", *_SMALL, "--load", "0.5", "--load", "1.5", plots=("sweep",)),
    _cells("realwork", "realwork", *_SMALL, plots=_LATENCY),
    _cells("repetitions", "repetitions", *_SMALL, "--repetitions", "2"),
    _cells("headtohead", "headtohead", *_SMOKE, "--arm", "redis", "--arm", "redis-priority",
           "--arm", "tenant-queues", "--arm", "tq-wfq", plots=("rivals", "crossover")),
    Step("fairgate", "fairgate", (*_ONCE, "--window", "1", "2.5"),
         ("bounds", "windows.tq-wfq", "windows.redis-priority"), codes=(0, 2)),
    Step("priority", "priority", (*_ONCE, "--tasks", "40", "--sleep", "5", "--arm", "redis",
                                  "--arm", "tq-priority"), ("in_front.tq-priority", "in_front.redis")),
    Step("crash", "crash", (*_ONCE, "--tasks", "40", "--held", "20", "--settled", "4", "--lease",
                            "2"), ("arms.tq", "arms.redis")),
    Step("delaydrift", "delaydrift", (*_ONCE, "--tasks", "20", "--pause", "0", "--arm", "tq-wfq",
                                      "--arm", "redis"), ("late_ms.tq-wfq", "late_ms.redis")),
    Step("race", "race", (*_ONCE, "--rounds", "20"), ("raw.naive", "raw.scripted", "raw.tq")),
    Step("retrystorm", "retrystorm", (*_ONCE, "--tasks", "300", "--failures", "1",
                                      "--worker-repetitions", "0"), ("fewer.fleet", "peaks.fleet")),
    Step("delayed", "delayed", (*_ONCE, "--waiting", "1000", "--burst", "200", "--drift", "10",
                                "--rate", "200", "--ahead", "2", "--settle", "0.5"), ("arms.tq",)),
    Step("ceiling", "ceiling", (*_ONCE, "--tasks", "20000", "--tenants", "10", "--policy", "wfq"),
         ("results",)),
    Step("drain", "drain", (*_ONCE, "--tasks", "1500", "--pool", "threads", "--rival", "redis",
                            "--prefetch", "4"), ("ratio.threads.redis.median",)),
    Step("submit", "submit", (*_ONCE, "--tasks", "300", "--rival", "redis"),
         ("ratio.tq.redis.median", "ratio.tq_bulk.redis.median")),
    Step("latency", "latency", ("--tasks", "200", "--rival", "redis", "--idle", "2"),
         ("added_ms.tq.p99", "idle_cores.tq")),
    Step("soak", "soak", ("--seconds", "20"), ()),
)  # fmt: skip
