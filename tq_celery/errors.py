"""Every error the library raises, under one root.

::

    TQError
    ├── SettingsError          a setting, option or flag has a bad value       (also ValueError)
    │   └── OptionError        one of tenant, cost, priority, deadline at a call
    ├── SubmitError            the namespace did not take the task
    │   ├── DuplicateTaskError   the same key was taken before, with another message
    │   ├── QueueFullError       a ``tq_max_pending`` limit is reached
    │   ├── PayloadTooLargeError the message is longer than ``tq_max_payload``
    │   ├── BulkError            some calls of a bulk submission were refused
    │   └── UnsupportedTaskError protocol 1, Broadcast queues, fan-out exchanges, strategies
    ├── StoreError             the server refused or did not answer
    │   ├── StoreUnavailableError  away, loading, read-only or out of memory: try again
    │   │   └── LateError            the call's deadline had passed on the server's clock
    │   └── SchemaError          the namespace was written by another major version
    ├── FencedError            a newer epoch has written; this leader is deposed
    ├── TraceError             a trace file cannot be read; names file and line   (also ValueError)
    ├── ProduceError           a workload was not submitted, or not all of it
    └── ReplayError            a replay or demo stopped early; what it has is not a whole run

Expected outcomes (no leader, lost election, stale token) are values, not errors.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = [
    "BulkError",
    "DuplicateTaskError",
    "FencedError",
    "LateError",
    "OptionError",
    "PayloadTooLargeError",
    "ProduceError",
    "QueueFullError",
    "ReplayError",
    "SchemaError",
    "SettingsError",
    "StoreError",
    "StoreUnavailableError",
    "SubmitError",
    "TQError",
    "TraceError",
    "UnsupportedTaskError",
]


class TQError(Exception):
    """Root of every error raised by tq-celery.

    Pickles with its fields: errors travel from pool processes, whose results cannot be read at all
    when their error cannot.
    """

    def __reduce__(
        self,
    ) -> tuple[Callable[..., TQError], tuple[type[TQError], tuple[object, ...]], dict[str, object]]:
        return _bare, (type(self), self.args), self.__dict__


class SettingsError(TQError, ValueError):
    """A setting, flag or option is unknown or out of its range.

    ``name`` is the setting, ``value`` what was given and ``allowed`` the range in words.
    """

    def __init__(self, name: str, value: object, allowed: str) -> None:
        self.name, self.value, self.allowed = name, value, allowed
        super().__init__(f"{name}: {value!r} is not allowed; expected {allowed}")


class OptionError(SettingsError):
    """An option of one call is out of its range: tenant, cost, priority, deadline, id or queue."""


class SubmitError(TQError):
    """The namespace did not accept a task; nothing was written."""


class DuplicateTaskError(SubmitError):
    """The same key was accepted before with a different message."""

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        super().__init__(f"task {task_id} was already submitted with another message")


class QueueFullError(SubmitError):
    """A ``tq_max_pending*`` limit is reached; ``scope`` is namespace, queue or tenant."""

    def __init__(self, scope: str, name: str, limit: int) -> None:
        self.scope, self.name, self.limit = scope, name, limit
        setting = "tq_max_pending" if scope == "namespace" else f"tq_max_pending_{scope}"
        super().__init__(f"{scope} {name!r} already has {limit} waiting tasks ({setting})")


class PayloadTooLargeError(SubmitError):
    """The message is longer than ``tq_max_payload`` bytes."""

    def __init__(self, task_id: str, size: int, limit: int) -> None:
        self.task_id, self.size, self.limit = task_id, size, limit
        super().__init__(
            f"task {task_id} has a message of {size} bytes; tq_max_payload allows {limit}"
        )


class UnsupportedTaskError(SubmitError):
    """The call uses a Celery feature that cannot pass through a scheduler."""


class BulkError(SubmitError):
    """Some calls of a bulk submission were not taken; all others were.

    ``errors`` maps the index of each such call to its error, and ``ids`` has an id per call, None
    where nothing was submitted. A call with an id and kombu's OperationalError has an unknown
    outcome: the server went away with its batch, and the same id may be sent again. A generator
    that fails has the index after its last call; what it gave before was submitted.
    """

    def __init__(self, errors: dict[int, Exception], ids: list[str | None]) -> None:
        self.errors, self.ids = errors, ids
        shown = "; ".join(f"call {i}: {e}" for i, e in sorted(errors.items())[:20])
        more = f"; and {len(errors) - 20} more" if len(errors) > 20 else ""
        super().__init__(f"{len(errors)} of {len(ids)} calls were not taken: {shown}{more}")


class StoreError(TQError):
    """A Redis operation failed; ``operation`` names the script or command."""

    def __init__(self, operation: str, message: str) -> None:
        self.operation = operation
        super().__init__(f"{operation}: {message}")


class StoreUnavailableError(StoreError):
    """The server is away, loading, read-only or out of memory; the operation may be repeated.

    ``refusal`` is the server's word (``OOM``, ``READONLY``) when it answered, else empty.
    ``undone`` tells that the operation certainly has not happened and will not: the server refused
    it, or was never reached.
    """

    def __init__(self, operation: str, message: str, *, refusal: str = "") -> None:
        self.refusal = refusal
        self.undone = bool(refusal)
        super().__init__(operation, message)


class LateError(StoreUnavailableError):
    """The server came to a submission after its deadline and changed nothing; ``at`` is its ms."""

    def __init__(self, at: int) -> None:
        self.at = at
        super().__init__("submit", "the server came to it after the deadline of the call")
        self.undone = True


class SchemaError(StoreError):
    """The namespace holds data of another major schema version."""


class FencedError(TQError):
    """A write was refused because a newer epoch has written to the namespace."""

    def __init__(self, epoch: int, fence: int) -> None:
        self.epoch, self.fence = epoch, fence
        super().__init__(f"epoch {epoch} is superseded by {fence}")


class TraceError(TQError, ValueError):
    """A trace file cannot be read: ``path``, ``line`` (1-based) and the reason."""

    def __init__(self, path: str, line: int, reason: str) -> None:
        self.path, self.line, self.reason = path, line, reason
        super().__init__(f"{path}:{line}: {reason}")


class ProduceError(TQError):
    """A workload was not submitted, or not all of it; the text says what to do about it."""


class ReplayError(TQError):
    """A replay could not run to its end; whatever it recorded so far is not a whole run."""


def _bare(kind: type[TQError], args: tuple[object, ...]) -> TQError:
    """Make an error without calling its ``__init__``; its fields follow as state."""
    error = kind.__new__(kind)
    error.args = args
    return error
