"""Celery's in-memory result backend, for callers that do not wait half a second for a result."""

from __future__ import annotations

from typing import Any

from celery.backends.cache import CacheBackend

__all__ = ["MemoryResults"]

#: Seconds between two looks for a result; Celery's default is 0.5.
LOOK_EVERY = 0.01


class MemoryResults(CacheBackend):
    """``cache+memory://``, shared by all threads of the process, and looked at every 10 ms."""

    thread_safe = True

    def __init__(self, app: Any, url: str | None = None, **options: Any) -> None:
        super().__init__(app, url="memory://", **options)

    def wait_for(self, task_id: str, timeout: Any = None, interval: Any = 0.5, **rest: Any) -> Any:
        wait: Any = super().wait_for
        return wait(task_id, timeout=timeout, interval=min(interval, LOOK_EVERY), **rest)
