"""The ratios as text, for whoever ran the command. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from bench.experiments.headtohead.ratios import Ratios
from bench.harness.cell import backlog_name, duration
from bench.harness.measure import Spread
from bench.harness.report import table

__all__ = ["arrivals", "backlogs"]


def backlogs(ratios: Ratios, ours: Sequence[str], rivals: Sequence[str]) -> str:
    """Return throughput, ours / rival, by duration, and below which one ours costs some."""
    lengths = ratios.durations
    rows = [
        [f"{mine} / {rival}",
         *(_said(ratios.throughput(mine, rival, backlog_name(ms))) for ms in lengths),
         ratios.crossover(mine, rival).says]
        for mine in ours for rival in rivals
    ]  # fmt: skip
    heads = [f"{ms:g} ms" for ms in lengths]
    return table(["throughput of a backlog", *heads, "costs throughput"], rows)


def arrivals(ratios: Ratios, ours: Sequence[str], rivals: Sequence[str]) -> str:
    """Return the quiet tenants' p95, rival / ours, and throughput, ours / rival, by workload."""
    workloads = [name for name in ratios.workloads if duration(name) is None]
    rows = [
        [f"{mine} against {rival}", _said(ratios.quiet(mine, rival, "multi_tenant")),
         *(_said(ratios.throughput(mine, rival, name)) for name in workloads)]
        for mine in ours for rival in rivals
    ]  # fmt: skip
    heads = [f"{name.replace('_', ' ')} tasks/s" for name in workloads]
    return table(["arrivals", "quiet tenants' p95", *heads], rows)


def _said(ratio: Spread | None) -> str:
    if ratio is None:
        return "-"
    if ratio.min == ratio.max:
        return f"{ratio.median:.3g}"
    return f"{ratio.median:.3g} ({ratio.min:.3g}..{ratio.max:.3g})"
