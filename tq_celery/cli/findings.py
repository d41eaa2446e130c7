"""What the checks of ``tq doctor`` look at, and what they find."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from tq_celery.store.health import ServerFacts
from tq_celery.store.views import Overview

__all__ = ["Facts", "Finding", "Found", "Level"]

Level = Literal["ok", "warn", "error"]


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything the checks look at. ``foreign`` maps keys of the wrong type to that type.

    ``sentinels`` tells that the server was found by them. ``leader_replicas`` and
    ``results_maxlen`` are settings as this command finds them, which may not be the schedulers'.
    """

    server: ServerFacts
    view: Overview
    foreign: Mapping[str, str]
    schema: str
    sentinels: bool = False
    leader_replicas: int = 0
    results_maxlen: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about one thing, and what to do about it (empty when it is right)."""

    check: str
    level: Level
    message: str
    action: str = ""


Found = Iterator[tuple[Level, str, str]]
