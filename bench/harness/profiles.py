"""Profiles by name or from a file: ``--profile quick``, ``--profile my.toml``."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

from bench.harness.cell import Exec, Profile
from bench.harness.cluster import POOLS
from bench.harness.errors import BenchError
from bench.harness.servers import KINDS
from tq_celery.setting_checks import did_you_mean
from tq_celery.workloads.deadlines import MOST

__all__ = ["NAMES", "load_profile"]

FOLDER = Path(__file__).resolve().parents[1] / "profiles"
#: Profiles that come with the lab.
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))

Check = Callable[[Any], bool]


def _number(low: float, high: float) -> tuple[str, Check]:
    return (
        f"a number from {low:g} to {high:g}",
        lambda value: (
            isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
        ),
    )


def _whole(low: int, high: int) -> tuple[str, Check]:
    return (
        f"a whole number from {low} to {high}",
        lambda value: (
            isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        ),
    )


def _word(words: tuple[str, ...]) -> tuple[str, Check]:
    return "one of " + ", ".join(words), lambda value: value in words


def _rule() -> tuple[str, Check]:
    words = f"three numbers from 0 to {MOST:g}, base, factor and jitter, not both first ones 0"
    _, fits = _number(0, MOST)
    return (
        words,
        lambda value: (
            isinstance(value, list) and len(value) == 3 and all(map(fits, value)) and any(value[:2])
        ),
    )


#: What each field may be, in words and as a check. Bounds are those of a run that can end.
_ALLOWED: Mapping[str, tuple[str, Check]] = {
    "window": _number(0.5, 3600),
    "long_window": _number(0.5, 3600),
    "slots": _whole(1, 1024),
    "workers": _whole(1, 64),
    "pool": _word(tuple(POOLS)),
    "load": _number(0.01, 10),
    "repetitions": _whole(1, 1000),
    "seed": _whole(0, 2**31),
    "exec": _word(get_args(Exec)),
    "longest": _number(0.016, 600),
    "failure": _number(0, 0.9),
    "grace": _number(1, 3600),
    "server": _word(KINDS),
    "deadline": _rule(),
}


def load_profile(name: str) -> Profile:
    """Return the profile called ``name``, or the one in the file of that name (``*.toml``).

    Raises BenchError that names the field, its value and what is allowed.
    """
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    if not name.endswith(".toml") and name not in NAMES:
        raise BenchError(
            f"profile: {name!r} is not one of {', '.join(NAMES)}, nor a file that ends in .toml"
            + did_you_mean(name.lower(), NAMES)
        )
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise BenchError(f"profile: {name} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BenchError(f"profile: {name} is not TOML: {error}") from error
    return _checked(path.stem, content, f"profile {name}")


def _checked(name: str, content: Mapping[str, Any], where: str) -> Profile:
    for field, value in content.items():
        if field not in _ALLOWED:
            raise BenchError(
                f"{where}: unknown field {field!r}; fields are {', '.join(_ALLOWED)}"
                + did_you_mean(field.lower(), _ALLOWED)
            )
        allowed, check = _ALLOWED[field]
        if not check(value):
            raise BenchError(f"{where}: {field} = {value!r} is not {allowed}")
    if "window" not in content:
        raise BenchError(f"{where}: window is missing, the length of the arrivals in seconds")
    fields: dict[str, Any] = {
        field: tuple(map(float, value)) if field == "deadline" else value
        for field, value in content.items()
    }
    profile = dataclasses.replace(Profile(name, 1.0), **fields)
    if profile.slots % profile.workers:
        raise BenchError(
            f"{where}: slots = {profile.slots} cannot be spread evenly over "
            f"{profile.workers} workers"
        )
    if profile.pool == "solo" and profile.slots != profile.workers:
        raise BenchError(f"{where}: pool solo has one slot a worker, not {profile.slots} in all")
    if profile.failure and profile.pool != "prefork":
        raise BenchError(
            f"{where}: failure = {profile.failure:g} needs pool prefork, whose processes can be "
            f"killed one by one, not {profile.pool}"
        )
    return profile
