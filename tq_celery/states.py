"""The words for where a task is and how it ended.

A state's word is also the Redis key, the script verb, the metric and the heading in the docs.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Outcome", "State"]


class State(StrEnum):
    """Where a live task is; every live task is in exactly one of these."""

    DELAYED = "delayed"
    SUBMITTED = "submitted"
    PENDING = "pending"
    DISPATCHED = "dispatched"
    RUNNING = "running"


class Outcome(StrEnum):
    """How a settled task ended; every accepted task gets exactly one."""

    COMPLETED = "completed"
    FAILED = "failed"
    RETRIED = "retried"
    REPLACED = "replaced"
    IGNORED = "ignored"
    REJECTED = "rejected"
    EXPIRED = "expired"
    REVOKED = "revoked"
    DEAD = "dead"
    DRAINED = "drained"
