"""How ``inspect active``, ``reserved`` and ``query_task`` describe a scheduled task."""

from __future__ import annotations

from typing import Any

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
