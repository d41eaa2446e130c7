"""What a run was asked to do, and under what circumstances it did it: ``manifest.json``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from bench.harness.cell import Cell, Profile
from bench.harness.errors import BenchError
from bench.harness.results import atomic

__all__ = ["VERSION", "Manifest", "plain"]

#: Layout of the folder. A reader of one version refuses all others.
VERSION = 1
_KIND = "tq-celery bench results"
FILE = "manifest.json"
#: The fields of a profile that need not be given.
_DEFAULTS = {
    each.name: list(each.default) if isinstance(each.default, tuple) else each.default
    for each in fields(Profile)
    if each.default is not MISSING
}


@dataclass(slots=True)
class Manifest:
    """The configuration (first five fields), and what was found and used on the way.

    ``settings`` is what an experiment was told beside the profile, ``cells`` all planned ones,
    ``seeds`` the seed of each repetition. ``notes`` were found out during the run. ``sessions`` are
    the times the run was started or resumed, each with its environment and how many cells it
    measured; the record of a cell has the number of its session (from 0). A session of a merged run
    names its folder in ``from``.
    """

    experiment: str
    profile: dict[str, Any]
    settings: dict[str, Any]
    cells: list[dict[str, Any]]
    seeds: dict[str, int]
    notes: dict[str, Any] = field(default_factory=dict)
    sessions: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(
        cls, experiment: str, profile: Profile, cells: Iterable[Cell], settings: Mapping[str, Any]
    ) -> Manifest:
        """Return the manifest of a run that is about to start."""
        planned = list(cells)
        repetitions = sorted({cell.repetition for cell in planned})
        return cls(
            experiment,
            plain(asdict(profile)),
            plain(dict(settings)),
            [asdict(cell) for cell in planned],
            {str(number): profile.seed + number for number in repetitions},
        )

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Return the manifest of a run's folder; BenchError when it is not one of this version."""
        try:
            content = json.loads((folder / FILE).read_text())
        except (OSError, ValueError):
            raise _foreign(folder) from None
        if not isinstance(content, dict) or content.pop("kind", None) != _KIND:
            raise _foreign(folder)
        version = content.pop("version", None)
        if version != VERSION:
            raise BenchError(
                f"{folder} has results of version {version}; this program reads and writes "
                f"version {VERSION}: choose another folder"
            )
        try:
            return cls(**content)
        except TypeError as error:
            raise BenchError(f"{folder / FILE} is damaged: {error}") from error

    def write(self, folder: Path) -> None:
        """Put the manifest into ``folder``."""
        content = {"kind": _KIND, "version": VERSION, **asdict(self)}
        # In the order of the fields, which a page made from the file then has too.
        atomic.write(folder / FILE, json.dumps(content, indent=1) + "\n")

    def difference(self, other: Manifest, cells: bool) -> str | None:
        """Return the first setting that differs, in words; None for equal configurations.

        ``cells`` says whether the planned cells have to be the same too.
        """
        if self.experiment != other.experiment:
            return f"experiment {self.experiment!r} against {other.experiment!r}"
        for part in ("profile", "settings"):
            ours, theirs = getattr(self, part), getattr(other, part)
            if part == "profile":
                # What a profile had no field for yet was as it is by default.
                ours, theirs = {**_DEFAULTS, **ours}, {**_DEFAULTS, **theirs}
            for name in sorted({*ours, *theirs}):
                if ours.get(name) != theirs.get(name):
                    where = f"{part}.{name}"
                    return f"{where} {_shown(ours.get(name))} against {_shown(theirs.get(name))}"
        if cells and self.cells != other.cells:
            for number, (mine, its) in enumerate(zip(self.cells, other.cells, strict=False)):
                if mine != its:
                    names = Cell(**mine).name, Cell(**its).name
                    return f"cells[{number}] {names[0]} against {names[1]}"
            return f"cells: {len(self.cells)} planned against {len(other.cells)}"
        return None

    @property
    def failure(self) -> float:
        """The share of attempts that were abandoned on purpose."""
        return float(self.profile.get("failure", 0.0))

    def planned(self) -> list[Cell]:
        """Return the planned cells, in order."""
        return [Cell(**cell) for cell in self.cells]


def plain(value: Any) -> Any:
    """Return ``value`` as JSON has it; BenchError when it cannot be kept."""
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError) as error:
        raise BenchError(f"not a value that a manifest can keep: {error}") from error


def _shown(value: object) -> str:
    return "(not set)" if value is None else json.dumps(value)


def _foreign(folder: Path) -> BenchError:
    return BenchError(f"{folder} is not a folder of results: choose another one")
