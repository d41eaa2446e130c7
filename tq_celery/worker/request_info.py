"""How ``inspect active``, ``reserved``, ``query_task`` and log lines describe a scheduled task."""

from __future__ import annotations

from typing import Any

from tq_celery.worker.lines import task_fields

__all__ = ["RequestInfo"]

#: Longest body whose arguments are shown as they are, bytes: every reply carries all of them.
LONGEST_SHOWN = 65_536


class RequestInfo:
    """Mixed in before Celery's request class."""

    def info(self, safe: bool = False) -> dict[str, Any]:
        """Describe the request as Celery does; long arguments as the text in the message's header.

        A reply with a hundred megabytes of them stays on the broker until somebody reads it.
        """
        request: Any = self
        described: dict[str, Any] = super().info(  # type: ignore[misc]
            safe=safe or len(request.body) > LONGEST_SHOWN
        )
        return described

    def tq_fields(self) -> dict[str, Any]:
        """Return the fields that name the task in a log line."""
        request: Any = self
        return task_fields(request._request_dict)
