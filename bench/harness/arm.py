"""What an arm of a comparison is: an application, its broker, and how much work it still holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

__all__ = ["Arm"]


class Arm(Protocol):
    """One side of a comparison."""

    @property
    def name(self) -> str:
        """The word in tables and JSON."""

    @property
    def app(self) -> str:
        """Module of the Celery application: ``app``, ``TASKS`` and ``options(work)``."""

    @property
    def scheduled(self) -> bool:
        """Whether a scheduler process is on the path."""

    @property
    def prefetch(self) -> int | None:
        """Celery's prefetch multiplier for its workers; ``None`` leaves Celery's default."""

    @property
    def env(self) -> Mapping[str, str]:
        """Environment of its producer, worker and scheduler."""

    def reset(self) -> None:
        """Forget all work of earlier runs."""

    def delete(self) -> None:
        """Leave nothing on the server; for the end of a run, when no process uses it any more."""

    def unsettled(self) -> int | None:
        """Return tasks sent and not acknowledged; ``None`` when the broker cannot tell cheaply."""

    def left(self) -> int:
        """Return tasks that are still there after the worker has stopped."""

    def dead_letters(self) -> list[dict[str, object]]:
        """Return what was given up; stock brokers know no such thing."""

    def server_cpu(self) -> float:
        """Return CPU seconds of the server that carries the tasks."""

    def server_us(self) -> float:
        """Return the server's own account of microseconds in commands so far; 0: it keeps none."""
