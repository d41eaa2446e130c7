"""The demo on a terminal: a live table; and without one: a plain line now and then."""

from __future__ import annotations

import time
from collections import Counter
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from tq_celery.demo.story import Outcome, Story
from tq_celery.demo.workload import FLOOD, QUIET
from tq_celery.replay.engine import Run
from tq_celery.replay.stats import Waits

__all__ = ["Screen", "comparison", "said"]

#: Seconds between two plain lines.
_EVERY = 2.0


def said(seconds: float) -> str:
    """Return a wait for people."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


class Screen:
    """Watches one arm; a context manager, because a live table takes over the terminal."""

    def __init__(self, console: Console, title: str, totals: dict[str, int]) -> None:
        self._console, self._title, self._totals = console, title, totals
        self._live = Live(console=console, refresh_per_second=8, transient=False)
        self._said = time.monotonic()

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def __call__(self, run: Run) -> None:
        """Show the run as it stands."""
        if self._console.is_terminal:
            self._live.update(self._table(run))
        elif time.monotonic() - self._said >= _EVERY or run.finished == run.total:
            self._said = time.monotonic()
            self._console.print(self._line(run), highlight=False, soft_wrap=True)

    def _rows(self, run: Run) -> list[tuple[str, int, int, int, float]]:
        waiting = Counter(item.work.tenant for item in run.waiting.values())
        running = Counter(item.work.tenant for item, _ in run.running.values())
        rows = []
        for tenant in (*QUIET, FLOOD):
            waits = [r.served.wait for r in run.records if r.work.tenant == tenant]
            p95 = Waits.of(waits).p95
            rows.append((tenant, waiting[tenant], running[tenant], len(waits), p95))
        return rows

    def _table(self, run: Run) -> Table:
        elapsed = time.time() - run.began
        table = Table(title=f"{self._title}, {elapsed:.0f} s", title_justify="left", min_width=72)
        table.add_column("tenant")
        for name in ("waiting", "running", "done"):
            table.add_column(name, justify="right", min_width=7)
        table.add_column("p95 wait", justify="right", min_width=9)
        table.add_column("", width=24)
        for tenant, waiting, running, done, p95 in self._rows(run):
            total = self._totals[tenant]
            style = "" if tenant == FLOOD else "bold"
            bar = ProgressBar(total=total, completed=done, width=24)
            cells = (tenant, f"{waiting}", f"{running}", f"{done}/{total}", said(p95))
            table.add_row(*cells, bar, style=style)
        return table

    def _line(self, run: Run) -> str:
        parts = [
            f"{tenant}: {waiting} waiting, {done}/{self._totals[tenant]} done, p95 {said(p95)}"
            for tenant, waiting, _, done, p95 in self._rows(run)
        ]
        return f"{self._title}, {time.time() - run.began:.0f} s | " + " | ".join(parts)


def comparison(story: Story) -> Table:
    """Return both arms side by side."""
    table = Table(title="The same work, side by side", title_justify="left")
    table.add_column("tenant")
    table.add_column("tasks", justify="right")
    for name in ("stock p50", "p95", "done at", "wfq p50", "p95", "done at"):
        table.add_column(name, justify="right")

    def cells(outcome: Outcome) -> tuple[str, str, str]:
        return said(outcome.waits.p50), said(outcome.waits.p95), f"{outcome.ended:.1f} s"

    for tenant, before in story.stock.items():
        table.add_row(tenant, f"{before.waits.count}", *cells(before), *cells(story.fair[tenant]))
    return table
