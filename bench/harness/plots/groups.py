"""Names of tenants and priority levels, and a figure of one of them in a cell."""

from __future__ import annotations

from collections.abc import Iterable

from bench.harness.summary import Group

__all__ = ["ideal_p95", "real_p95"]


def real_p95(groups: Iterable[Group], name: str) -> float | None:
    """Return the p95 latency of the tenant or level ``name``; None where it has none."""
    return next((group.real.latency_p95 for group in groups if group.name == name), None)


def ideal_p95(groups: Iterable[Group], name: str) -> float | None:
    """Return the p95 latency that the ideal server gave to ``name``."""
    return next((group.ideal.latency_p95 for group in groups if group.name == name), None)
