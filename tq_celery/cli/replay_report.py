"""How a replay is printed: as text, as JSON, and as the tables of a Markdown page."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tq_celery.cli.groups import CommandError
from tq_celery.cli.output import table
from tq_celery.replay.cluster import ClusterShape
from tq_celery.replay.summary import Summary
from tq_celery.traces import Skips
from tq_celery.workloads.scaling import Scale, Survey

__all__ = ["Report", "as_json", "as_text", "markdown", "update_page"]

#: A producer this late (p99, seconds) has offered another workload than the trace's.
LATE = 0.1

#: The marks between which a page's tables are replaced.
BEGIN, END = "<!-- tq replay: begin -->", "<!-- tq replay: end -->"


@dataclass(slots=True)
class Report:
    """A replay and its result, arm by arm."""

    trace: Path
    found: Survey
    scale: Scale
    shape: ClusterShape
    skips: Skips
    output: Path
    summaries: list[Summary] = field(default_factory=list)

    @property
    def load(self) -> float:
        """Work offered per slot second; 1 is capacity."""
        return self.found.load(self.scale, self.shape.slots)

    def heading(self) -> list[str]:
        """Return what is replayed and how, before anything runs."""
        scale, found = self.scale, self.found
        cap = "" if scale.max_exec is None else f", none above {scale.max_exec:g} s"
        return [
            (
                f"{self.trace.name}: {found.jobs} jobs of {found.tenants} tenants; recorded in "
                f"{found.span:,.0f} s, submitted in {found.span / scale.speedup:.1f} s"
            ),
            (
                f"time / {scale.speedup:.6g}, run times / {scale.run_speedup:.6g}{cap}; load "
                f"{self.load:.3f} on {self.shape.slots} slots"
            ),
            *(self.skips.lines() or ["no line was skipped"]),
        ]


def _seconds(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def arms(report: Report) -> tuple[list[str], list[list[str]]]:
    """Return the table with one row per arm; waits in seconds."""
    head = [
        "policy", "wait p50", "p95", "p99", "max", "typical tenant p95", "tasks/s", "utilisation",
        "Jain",
    ]  # fmt: skip
    rows = [
        [
            s.policy,
            *(_seconds(x) for x in (s.waits.p50, s.waits.p95, s.waits.p99, s.waits.max)),
            _seconds(s.typical_p95), f"{s.throughput:.1f}", f"{s.utilisation:.0%}", _ratio(s.jain),
        ]
        for s in report.summaries
    ]  # fmt: skip
    return head, rows


def tenants(report: Report, top: int) -> tuple[list[str], list[list[str]]]:
    """Return the table with one row per tenant: p50, p95, p99 and max, or p95 of each arm."""
    first = report.summaries[0]
    shown = first.tenants[:top]
    if len(report.summaries) == 1:
        head = ["tenant", "jobs", "worker s", "wait p50", "p95", "p99", "max"]
        return head, [
            [
                t.tenant, f"{t.jobs}", f"{t.service:.1f}",
                *(_seconds(x) for x in (t.waits.p50, t.waits.p95, t.waits.p99, t.waits.max)),
            ]
            for t in shown
        ]  # fmt: skip
    head = ["tenant", "jobs", "worker s", *(f"p95 {s.policy}" for s in report.summaries)]
    p95 = [{t.tenant: t.waits.p95 for t in s.tenants} for s in report.summaries]
    return head, [
        [t.tenant, f"{t.jobs}", f"{t.service:.1f}", *(_seconds(by[t.tenant]) for by in p95)]
        for t in shown
    ]


def notes(report: Report) -> list[str]:
    """Return what a reader must know to judge the numbers."""
    lines = []
    for s in report.summaries:
        if s.repeats:
            lines.append(f"{s.policy}: {s.repeats} tasks were executed more than once")
        if s.lag.p99 > LATE:
            lines.append(
                f"{s.policy}: the producer was late (p99 {s.lag.p99:.3f} s, max {s.lag.max:.3f} s)"
            )
    if not lines:
        worst = max((s.lag.p99 for s in report.summaries), default=0.0)
        lines.append(f"every task ran once; the producer was never late (p99 {worst * 1e3:.1f} ms)")
    return lines


def _aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a plain table whose columns after the first are set to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    padded = [
        [
            cell.rjust(width) if i else cell
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in (head, *rows)
    ]
    return table(padded[0], padded[1:])


def as_text(report: Report, top: int) -> list[str]:
    """Return the result for a terminal."""
    head, rows = arms(report)
    text = ["", _aligned(head, rows)]
    if top:
        head, rows = tenants(report, top)
        text += ["", _aligned(head, rows)]
        hidden = len(report.summaries[0].tenants) - len(rows)
        text += [f"... and {hidden} more tenants (--top, --json)"] if hidden > 0 else []
    return [*text, "", *notes(report), f"raw records: {report.output}"]


def as_json(report: Report) -> dict[str, Any]:
    """Return everything, all tenants included; waits and times in seconds."""
    scale = report.scale
    return {
        "complete": True,
        "trace": str(report.trace),
        "jobs": report.found.jobs,
        "tenants": report.found.tenants,
        "skipped": dict(report.skips.counts()),
        "speedup": scale.speedup,
        "run_speedup": scale.run_speedup,
        "max_exec": scale.max_exec,
        "cost": scale.cost,
        "load": report.load if report.found.span > 0 else None,
        "slots": report.shape.slots,
        "records": str(report.output),
        "results": [asdict(summary) for summary in report.summaries],
    }


def markdown(report: Report, top: int) -> list[str]:
    """Return the result as Markdown, with the command that made it."""
    command = shlex.join(["tq", *(_shown(word) for word in sys.argv[1:])])
    text = ["```", command, "", *report.heading(), "```", "", *_markdown(*arms(report)), ""]
    if top:
        text += [*_markdown(*tenants(report, top)), ""]
    return [*text, "Waits are in seconds. " + "; ".join(notes(report)).capitalize() + "."]


def _shown(word: str) -> str:
    """Leave out where files happen to lie on the machine that ran the command."""
    return Path(word).name if Path(word).is_absolute() else word


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return ["| " + " | ".join(row) + " |" for row in (head, rule, *rows)]


def update_page(page: Path, report: Report, top: int) -> None:
    """Replace what stands between the marks of ``page``; CommandError when it has none."""
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise CommandError(f"{page} has no marks {BEGIN} and {END}")
    body = "\n".join(markdown(report, top))
    page.write_text(f"{before}{BEGIN}\n{body}\n{END}{after}", encoding="utf-8")
