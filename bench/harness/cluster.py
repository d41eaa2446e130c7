"""Producers, workers and schedulers of an arm, as the processes a user would start."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from bench.harness.arms import Arm
from bench.harness.errors import BenchError
from bench.harness.process import ROOT, Process, python_env

__all__ = ["POOLS", "produce", "scheduler", "sender", "worker"]

#: ``--pool``: Celery's name of the pool and its ``--concurrency``.
POOLS: Mapping[str, tuple[str, int]] = {
    "threads": ("threads", 4),
    "solo": ("solo", 1),
    "prefork": ("prefork", 2),
}


def produce(
    arm: Arm,
    count: int,
    python: str = sys.executable,
    *,
    program: str = "bench.harness.producer",
    env: Mapping[str, str] | None = None,
) -> dict[str, float]:
    """Send ``count`` tasks with ``program``, a process of its own; returns what it measured.

    Raises BenchError with the producer's last line when it fails.
    """
    done = subprocess.run(
        [python, "-m", program, arm.app, str(count)],
        cwd=ROOT,
        env=python_env({**arm.env, **(env or {})}),
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["(no output)"]
        raise BenchError(f"the producer of {arm.name} failed: {lines[-1]}")
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def worker(
    arm: Arm,
    pool: str,
    *,
    prefetch: int | None = None,
    env: Mapping[str, str] | None = None,
    python: str = sys.executable,
    concurrency: int | None = None,
    number: int | None = None,
) -> Process:
    """Start ``celery worker`` for the arm's application; ``prefetch`` is Celery's multiplier.

    ``concurrency`` replaces that of :data:`POOLS`; ``number`` tells apart several workers. Mingle,
    gossip and heartbeats are off in every arm: with few workers they only add noise.
    """
    kind, usual = POOLS[pool]
    command = [
        python, "-m", "celery", "-A", arm.app, "worker", "--pool", kind,
        "--concurrency", str(concurrency or usual), "--loglevel", "error",
        "--without-mingle", "--without-gossip", "--without-heartbeat",
    ]  # fmt: skip
    if prefetch is not None:
        command += ["--prefetch-multiplier", str(prefetch)]
    if number is not None:
        command += ["--hostname", f"bench{number}@%h"]
    if queues := getattr(arm, "queues", ()):
        command += ["--queues", ",".join(queues)]
    # Containers run the bench as root, which Celery asks to be told about.
    name = f"worker-{arm.name}" if number is None else f"worker-{arm.name}-{number}"
    return Process(name, command, {**arm.env, "C_FORCE_ROOT": "1", **(env or {})})


def sender(arm: Arm, plan: Path, sent: Path, how: str, python: str = sys.executable) -> Process:
    """Start the open-loop producer of :mod:`bench.harness.sender` waiting for orders."""
    command = [python, "-m", "bench.harness.sender", arm.app, str(plan), str(sent), how]
    return Process(f"producer-{arm.name}", command, arm.env, listens=True)


def scheduler(
    arm: Arm, python: str = sys.executable, env: Mapping[str, str] | None = None
) -> Process:
    """Start ``tq scheduler`` for the arm's namespace."""
    command = [python, "-m", "tq_celery.cli", "scheduler"]
    return Process(f"scheduler-{arm.name}", command, {**arm.env, **(env or {})})
