"""The raw records of a run as CSV: what tables and charts are made from.

The file appears under its name only when every arm is whole; until then, and after a run that
stopped early, it ends in ``.partial``.
"""

from __future__ import annotations

import csv
from pathlib import Path
from types import TracebackType
from typing import Self

from tq_celery.errors import ReplayError
from tq_celery.replay.engine import Run

__all__ = ["COLUMNS", "RawFile"]

#: Times are wall clock seconds; ``wait`` is from submission to the start of the body.
COLUMNS = (
    "policy", "job", "tenant", "cost", "seconds", "scheduled", "submitted", "lag", "started",
    "finished", "wait",
)  # fmt: skip


class RawFile:
    """Writes records arm by arm, as a context manager; ReplayError when it cannot."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.partial = path.with_name(path.name + ".partial")

    def __enter__(self) -> Self:
        try:
            self._stream = self.partial.open("w", newline="", encoding="utf-8")
        except OSError as error:
            raise ReplayError(f"cannot write {self.path}: {error.strerror or error}") from error
        self._rows = csv.writer(self._stream)
        self._rows.writerow(COLUMNS)
        return self

    def add(self, run: Run) -> None:
        """Append the records of one arm, in the order of the jobs."""
        for r in sorted(run.records, key=lambda record: record.work.job):
            self._rows.writerow(
                [
                    run.policy, r.work.job, r.work.tenant, f"{r.work.cost:.9g}",
                    f"{r.work.seconds:.6f}", f"{r.work.at:.6f}", f"{r.submitted:.6f}",
                    f"{r.lag:.6f}", f"{r.started:.6f}", f"{r.finished:.6f}",
                    f"{r.served.wait:.6f}",
                ]
            )  # fmt: skip
        self._stream.flush()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stream.close()
        if error is None:
            self.partial.replace(self.path)
