"""What the arms read of a task that is to be sent."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Work"]


class Work(Protocol):
    """One task of a workload; ``priority`` counts from 0, higher is more urgent."""

    @property
    def tenant(self) -> str: ...

    @property
    def priority(self) -> int: ...
