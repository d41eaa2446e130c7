"""A run's folder while it grows: opened or resumed, one whole cell after the other, a report."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from bench.harness.cell import Cell, Profile
from bench.harness.errors import BenchError
from bench.harness.record import Run
from bench.harness.report import progress
from bench.harness.results import stored, tables
from bench.harness.results.manifest import FILE, Manifest, plain
from bench.harness.summary import CellSummary, summarise
from bench.harness.verdicts.verdict import Verdict

__all__ = ["Results"]

#: Endings after which a cell need not be run again. A cell that timed out is a result: the system
#: under test did not make it. One that was cut short or could not be run is tried again.
FINAL = frozenset({"complete", "timed-out"})
_LOCK = ".lock"


class Results:
    """The folder of one run. Use as a context manager: one process writes at a time."""

    def __init__(self, path: Path, manifest: Manifest, lock: contextlib.ExitStack) -> None:
        self.path, self.manifest = path, manifest
        self._session = len(manifest.sessions) - 1
        self._summaries: dict[str, CellSummary] = {}
        for name in stored.names(path):
            loaded = stored.load(path, name)
            if loaded is None:
                progress(f"{path}: cell {name} was not written whole and does not count")
            else:
                self._summaries[name] = summarise(loaded[0])
        # From here on it is this object that holds the lock.
        self._lock = lock.pop_all()

    @classmethod
    def open(
        cls,
        path: Path,
        experiment: str,
        profile: Profile,
        cells: Iterable[Cell],
        environment: Mapping[str, object],
        settings: Mapping[str, object] | None = None,
    ) -> Results:
        """Start a run in ``path``, or resume the one that is there.

        ``cells`` are all planned ones, ``settings`` what the experiment was told beside the
        profile. BenchError, with nothing touched, for a folder of something else, of another
        version, of another configuration (the field is named), or in use.
        """
        wanted = Manifest.of(experiment, profile, cells, settings or {})
        if path.exists() and not path.is_dir():
            raise BenchError(f"{path} is a file: choose a folder for the results")
        if (path / FILE).exists():
            manifest = Manifest.read(path)
            difference = manifest.difference(wanted, cells=True)
            if difference is not None:
                raise BenchError(
                    f"{path} has a run of another configuration: {difference}; "
                    "choose another folder, or resume with the same settings"
                )
        elif path.is_dir() and any(entry.name != _LOCK for entry in path.iterdir()):
            raise BenchError(f"{path} is not empty and has no results: choose another folder")
        else:
            manifest = wanted
        with _lock(path) as lock:
            stored.prepare(path)
            there = len(stored.names(path))
            if there:
                progress(f"{path}: {there} of {len(manifest.cells)} cells are there, going on")
            manifest.sessions.append({
                "started": datetime.now(UTC).isoformat(timespec="seconds"),
                "environment": plain(dict(environment)),
                "cells": 0,
            })  # fmt: skip
            manifest.write(path)
            return cls(path, manifest, lock)

    @classmethod
    def read(cls, path: Path) -> Results:
        """Return a run that is there, to look at or to render anew; BenchError when it is none."""
        manifest = Manifest.read(path)
        with _lock(path) as lock:
            return cls(path, manifest, lock)

    def __enter__(self) -> Results:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.close()

    @property
    def notes(self) -> Mapping[str, Any]:
        """What was found out during the run and kept with :meth:`note`."""
        return self.manifest.notes

    def note(self, name: str, value: object) -> None:
        """Keep ``value`` (as JSON) in the manifest, where a resumed run finds it."""
        self.manifest.notes[name] = plain(value)
        self.manifest.write(self.path)

    def has(self, cell: Cell) -> bool:
        """Whether there is nothing left to do for ``cell``."""
        summary = self._summaries.get(cell.name)
        return summary is not None and summary.ending in FINAL

    def add(self, run: Run) -> None:
        """Keep a cell. From here on it survives whatever happens to this process.

        ValueError for a cell that was not planned, or whose result is already there.
        """
        if run.cell not in self.manifest.planned():
            raise ValueError(f"{run.cell.name} is not a cell of this run")
        if self.has(run.cell):
            raise ValueError(f"{run.cell.name} is already there")
        self._summaries.pop(run.cell.name, None)
        stored.save(self.path, run, self._session)
        self._account(run)
        # From the files, as a later reader finds it: the same figures to the last digit.
        loaded = stored.load(self.path, run.cell.name)
        assert loaded is not None, "a cell was changed while it was written"
        self._summaries[run.cell.name] = summarise(loaded[0])
        tables.write(self.path, self.summaries())

    def _account(self, run: Run) -> None:
        """Count the cell for its session, whose servers are known from its runs only."""
        session = self.manifest.sessions[self._session]
        session["cells"] += 1
        environment = session["environment"]
        servers = {*environment.get("servers", ()), *run.versions.values()}
        environment["servers"] = sorted(servers)
        self.manifest.write(self.path)

    def runs(self) -> Iterable[Run]:
        """Yield every cell that is there, read from its files, in the planned order."""
        for cell in self.manifest.planned():
            if cell.name in self._summaries and (loaded := stored.load(self.path, cell.name)):
                yield loaded[0]

    def summaries(self) -> list[CellSummary]:
        """Return every cell that is there in figures, in the planned order."""
        names = [cell.name for cell in self.manifest.planned()]
        return [self._summaries[name] for name in names if name in self._summaries]

    def finish(self, verdicts: Iterable[Verdict]) -> Path:
        """Write tables, plots and the page anew, of whatever is there; returns the page's path."""
        # Drawing needs a second to be imported, which a run should not pay before it starts.
        from bench.harness.page.render import render

        return render(self.path, self.manifest, self.summaries(), list(verdicts))


def _lock(path: Path) -> contextlib.ExitStack:
    with contextlib.ExitStack() as stack:
        try:
            path.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context((path / _LOCK).open("a"))
        except OSError as error:
            raise BenchError(f"{path} cannot be written to: {error.strerror}") from error
        try:
            # Let go by the kernel when this process ends, however it ends.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BenchError(f"{path} is in use by another run: wait for it, or stop it") from None
        return stack.pop_all()
