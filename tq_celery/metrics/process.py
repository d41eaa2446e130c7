"""What every process that has an endpoint exposes of itself."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Protocol

from tq_celery.metrics.buckets import Buckets
from tq_celery.metrics.samples import Samples

__all__ = ["Calls", "fill_process"]


class Calls(Protocol):
    """Times and errors of the calls to the store's scripts."""

    def times(self) -> Mapping[str, Buckets]:
        """Return the times by script."""

    def errors(self) -> Mapping[tuple[str, str], int]:
        """Return how often each kind of error ended each script."""


def fill_process(samples: Samples, role: str, calls: Calls) -> None:
    """Add everything whose exposer is ``both``."""
    try:
        ours = version("tq-celery")
    except PackageNotFoundError:  # used from its folder, never installed
        ours = "unknown"
    samples.add("tq_build_info", 1, version=ours, role=role)
    for script, times in sorted(calls.times().items()):
        samples.add_buckets("tq_script_seconds", times, script=script)
    for (script, error), count in sorted(calls.errors().items()):
        samples.add("tq_script_errors_total", count, script=script, error=error)
