"""Where a measurement was made: without it a number means nothing."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Iterable
from pathlib import Path

from bench.harness.process import ROOT

__all__ = ["describe"]

_PACKAGES = ("tq-celery", "celery", "kombu", "redis", "hiredis", "amqp", "celery-redis-plus")


def _versions() -> dict[str, str]:
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return versions


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _commit() -> str:
    answer = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True
    )
    return answer.stdout.strip() or "unknown"


def describe(servers: Iterable[str] = ()) -> dict[str, object]:
    """Return versions, machine, cores and load; ``servers`` are version lines of those in use.

    ``load`` is the one-minute average: above about 0.3 before a run, others were using the machine.
    """
    return {
        "python": platform.python_version(),
        "packages": _versions(),
        "servers": sorted(servers),
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "load": round(os.getloadavg()[0], 2),
        "commit": _commit(),
    }
