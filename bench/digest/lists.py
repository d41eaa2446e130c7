"""Tables of what is a list already: pass rules, machines, and the JSON of an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from bench.digest.figures import repetitions
from bench.digest.files import Record, read_csv, read_json
from bench.digest.request import Options, Table, beside
from bench.digest.words import amount, with_spread
from bench.harness.errors import BenchError
from tq_celery.setting_checks import did_you_mean

__all__ = ["listed", "machine", "verdicts"]

#: Packages whose versions belong to a result.
_PACKAGES = ("celery", "kombu", "redis", "hiredis")


def verdicts(data: Path, options: Options) -> Table:
    """Return what the pass rules said."""
    pattern = options.take("name", "*")
    records = [
        each
        for each in read_csv(beside(data, "-verdicts.csv"))
        if fnmatchcase(each["name"], pattern)
    ]
    if not records:
        raise BenchError(f"no rule of {data.name} is called {pattern!r}")
    rows = [
        [
            each["name"],
            _measured(each),
            amount(float(each["ideal"])) if each["ideal"] else "-",
            each["bound"] or "-",
            each["outcome"] if each["outcome"] != "not judged" else f"not judged: {each['why']}",
        ]
        for each in records
    ]  # fmt: skip
    found = [each for each in records if each["measured"]]
    note = repetitions(found, spread=any(each["least"] for each in found))
    return Table(["rule", "measured", "ideal", "bound", "verdict"], rows, note)


def _measured(verdict: Record) -> str:
    if not verdict["measured"]:
        return "-"
    median = float(verdict["measured"])
    # A figure of all repetitions together has no spread of its own.
    return with_spread(
        median, float(verdict["least"] or median), float(verdict["greatest"] or median)
    )


def machine(data: Path, options: Options) -> Table:
    """Return where it was measured, a line for each environment."""
    del options
    about = beside(data, "-about.json")
    if about.exists():
        # One that was ended before its first cell has measured nothing.
        sessions = read_json(about)["sessions"]
        environments = [each["environment"] for each in sessions if each["cells"]]
    else:
        environments = [read_json(beside(data, ".json"))["environment"]]
    rows = []
    for one in environments:
        packages = one["packages"]
        row = [
            f"{one['processor']}, {one['cores']} cores, {one['memory_gib']:g} GiB", one["system"],
            ", ".join([f"Python {one['python']}", *(f"{n} {packages[n]}" for n in _PACKAGES)]),
            ", ".join(one["servers"]) or "-",
        ]  # fmt: skip
        if row not in rows:
            rows.append(row)
    return Table(["machine", "system", "software", "servers"], rows)


def listed(data: Path, options: Options) -> Table:
    """Return a list of objects, or an object of them, of ``DATA.json``."""
    at: Any = read_json(beside(data, ".json"))
    for word in filter(None, options.take("path", "").split(".")):
        if not isinstance(at, Mapping) or word not in at:
            known = list(at) if isinstance(at, Mapping) else []
            raise BenchError(f"{data.name}.json has no {word!r} there{did_you_mean(word, known)}")
        at = at[word]
    if isinstance(at, Mapping):
        at = [
            {"": name, **of} if isinstance(of, Mapping) else {"": name, "value": of}
            for name, of in at.items()
        ]
    if not isinstance(at, list) or not at or not all(isinstance(each, Mapping) for each in at):
        raise BenchError(f"{data.name}.json has no list of objects there")
    columns = options.take("columns", ",".join(at[0])).split(",")
    return Table(columns, [[_value(each, name) for name in columns] for each in at])


def _value(of: Mapping[str, Any], name: str) -> str:
    """Return one entry; an object of a spread as such, any other one name by name."""
    if name not in of:
        raise BenchError(f"no column {name!r} among {', '.join(of)}{did_you_mean(name, list(of))}")
    return _shown(of[name])


def _shown(value: Any) -> str:
    if not isinstance(value, Mapping):
        return _text(value)
    if set(value) == {"median", "min", "max"}:
        return with_spread(value["median"], value["min"], value["max"])
    return ", ".join(f"{key} {_shown(each)}" for key, each in value.items())


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return amount(value)
    return str(value)
