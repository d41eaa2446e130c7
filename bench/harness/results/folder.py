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
from bench.harness.results import stored
from bench.harness.results.manifest import FILE, Manifest, plain

__all__ = ["Results"]

#: Endings after which a cell need not be run again. A cell that timed out is a result: the system
#: under test did not make it. One that was cut short or could not be run is tried again.
FINAL = frozenset({"complete", "timed-out"})
_LOCK = ".lock"


class Results:
    """The folder of one run. Use as a context manager: one process writes at a time."""

    def __init__(self, path: Path, manifest: Manifest, session: int, lock: contextlib.ExitStack):
        self.path, self.manifest = path, manifest
        self._session, self._lock = session, lock
        self._endings: dict[str, str] = {}
        for name in stored.names(path):
            loaded = stored.load(path, name)
            if loaded is None:
                progress(f"{path}: cell {name} was not written whole and does not count")
            else:
                self._endings[name] = loaded[0].ending

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
        lock = _lock(path)
        stored.prepare(path)
        manifest.sessions.append({
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "environment": plain(dict(environment)),
        })  # fmt: skip
        manifest.write(path)
        return cls(path, manifest, len(manifest.sessions) - 1, lock)

    @classmethod
    def read(cls, path: Path) -> Results:
        """Return a run that is there, to look at or to render anew; BenchError when it is none."""
        manifest = Manifest.read(path)
        return cls(path, manifest, len(manifest.sessions) - 1, _lock(path))

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
        return self._endings.get(cell.name) in FINAL

    def add(self, run: Run) -> None:
        """Keep a cell. From here on it survives whatever happens to this process.

        ValueError for a cell that was not planned, or whose result is already there.
        """
        if run.cell not in self.manifest.planned():
            raise ValueError(f"{run.cell.name} is not a cell of this run")
        if self.has(run.cell):
            raise ValueError(f"{run.cell.name} is already there")
        self._endings.pop(run.cell.name, None)
        stored.save(self.path, run, self._session)
        self._endings[run.cell.name] = run.ending

    def runs(self) -> Iterable[Run]:
        """Yield every cell that is there, read from its files, in the planned order."""
        for cell in self.manifest.planned():
            if cell.name in self._endings and (loaded := stored.load(self.path, cell.name)):
                yield loaded[0]


def _lock(path: Path) -> contextlib.ExitStack:
    path.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        file = stack.enter_context((path / _LOCK).open("a"))
        try:
            # Let go by the kernel when this process ends, however it ends.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BenchError(f"{path} is in use by another run: wait for it, or stop it") from None
        return stack.pop_all()
