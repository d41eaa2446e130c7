"""One cell on disk: the tasks, the dead letters, and last of all the record that makes it count.

``raw/<cell>.csv`` has the tasks, ``dead_letters/<cell>.json`` what was buried, ``raw/<cell>.json``
everything else together with a digest of the CSV. A cell without its record, or with one that
belongs to other rows, was interrupted while it was written and is not there.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.harness.cell import Cell
from bench.harness.errors import BenchError
from bench.harness.record import Run
from bench.harness.results import atomic, rows

__all__ = ["copy", "load", "names", "prepare", "save"]

_TASKS = ("rows", "ideal", "dead_letters")


def prepare(folder: Path) -> None:
    """Make the folders of cells, without leftovers of writers that were killed."""
    for name in ("raw", "dead_letters"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        atomic.clear_partial(folder / name)
    atomic.clear_partial(folder)


def save(folder: Path, run: Run, session: int) -> None:
    """Write a cell; it counts from the last step on.

    One of the same name that is replaced counts until its rows are: they are not its record's then.
    """
    name = run.cell.name
    text = rows.encode(run.rows, run.ideal)
    atomic.write(folder / "raw" / f"{name}.csv", text)
    letters = json.dumps(run.dead_letters, indent=1, sort_keys=True, default=str) + "\n"
    letters_path = folder / "dead_letters" / f"{name}.json"
    if run.dead_letters:
        atomic.write(letters_path, letters)
    else:
        letters_path.unlink(missing_ok=True)
    record = {key: value for key, value in _plain(run).items() if key not in _TASKS}
    record |= {
        "session": session,
        "tasks": len(run.rows),
        "dead_letters": len(run.dead_letters),
        "sha256": _digest(text),
    }
    atomic.write(
        folder / "raw" / f"{name}.json", json.dumps(record, indent=1, sort_keys=True) + "\n"
    )


def names(folder: Path) -> list[str]:
    """Return the names of the cells that have a record."""
    return sorted(path.stem for path in (folder / "raw").glob("*.json"))


def load(folder: Path, name: str) -> tuple[Run, int] | None:
    """Return a cell and the number of the session that measured it; None when it is not whole.

    Raises BenchError for a record or rows that no writer of ours has made.
    """
    record_path = folder / "raw" / f"{name}.json"
    try:
        text = (folder / "raw" / f"{name}.csv").read_bytes().decode()
        record: dict[str, Any] = json.loads(record_path.read_text())
        if record.pop("sha256") != _digest(text):
            return None
        done, ideal = rows.decode(text)
        session, _ = int(record.pop("session")), record.pop("tasks")
        letters: list[dict[str, object]] = []
        if record.pop("dead_letters"):
            letters = json.loads((folder / "dead_letters" / f"{name}.json").read_text())
        cell = Cell(**record.pop("cell"))
        run = Run(cell=cell, rows=done, ideal=ideal, dead_letters=tuple(letters), **record)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise BenchError(f"{record_path} is not the record of a cell: {error}") from error
    return run, session


def copy(source: Path, target: Path, name: str, shift: int) -> None:
    """Copy a whole cell to another folder, whose sessions are numbered ``shift`` higher."""
    loaded = load(source, name)
    if loaded is None:
        raise BenchError(f"{source}: cell {name} is not whole; resume that run, or delete the cell")
    save(target, loaded[0], loaded[1] + shift)


def _plain(run: Run) -> dict[str, Any]:
    # Not asdict of the whole: it would copy every row.
    record = {name: getattr(run, name) for name in Run.__dataclass_fields__ if name not in _TASKS}
    return {**record, "cell": asdict(run.cell)}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
