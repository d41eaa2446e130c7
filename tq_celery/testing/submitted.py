"""What was submitted, as an assertion compares it and as a message shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

__all__ = ["FIELDS", "Submitted", "differences"]

#: Fields that an assertion may ask for.
FIELDS = (
    "args", "kwargs", "id", "tenant", "priority", "cost", "deadline", "queue", "countdown", "eta",
    "retries", "scheduled", "eager", "then",
)  # fmt: skip
#: Fields that are times: seconds from the call, or a moment.
_TIMES = frozenset({"deadline", "countdown", "eta"})
#: Seconds by which a moment may differ from the same time given in seconds from the call.
TOLERANCE = 1.0


@dataclass(frozen=True, slots=True)
class Submitted:
    """One call as the worker would get it: after routing, defaults and serialisation.

    ``tenant`` is text, or bytes where those are no text. ``deadline`` is seconds from the call, or
    an aware moment where it was given or inherited as one. ``countdown`` is seconds, ``eta`` an
    aware moment; at most one of them is set. ``then`` names what Celery sends when the task has
    ended: the rest of a chain, callbacks, a chord's body. ``scheduled`` is ``False`` for a task
    that goes to the broker: of such only what the message says is known. ``eager`` marks a call
    that ran at once under ``task_always_eager``, which ignores countdown, ETA and queue.
    """

    name: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""
    tenant: str | bytes | None = None
    priority: int | None = None
    cost: float | None = None
    deadline: float | datetime | None = None
    queue: str = ""
    countdown: float | None = None
    eta: datetime | None = None
    retries: int = 0
    scheduled: bool = True
    eager: bool = False
    then: tuple[str, ...] = ()
    headers: Mapping[str, Any] = field(default_factory=dict, repr=False)
    #: When it was submitted, aware.
    at: datetime = field(default_factory=lambda: datetime.now().astimezone(), repr=False)

    def __str__(self) -> str:
        """Return the call and the options that it has, on one line."""
        values = [*map(repr, self.args), *(f"{k}={v!r}" for k, v in self.kwargs.items())]
        shown = ["tenant", "priority", "cost", "deadline", "queue", "countdown", "eta", "then"]
        options = [f"{name}={_shown(getattr(self, name))}" for name in shown if self._has(name)]
        kind = ["eager"] if self.eager else [] if self.scheduled else ["not scheduled"]
        return f"{self.name}({', '.join(values)})  " + " ".join([*options, *kind])

    def _has(self, name: str) -> bool:
        return getattr(self, name) not in (None, "", ())


def differences(call: Submitted, expected: Mapping[str, Any]) -> list[str]:
    """Return in words which of the expected fields ``call`` does not have."""
    wrong = []
    for name, value in expected.items():
        found = getattr(call, name)
        same = _same_time(call.at, found, value) if name in _TIMES else _same(name, found, value)
        if not same:
            wrong.append(f"{name} is {_shown(found)}")
    return wrong


def _same(name: str, found: Any, expected: Any) -> bool:
    if name == "tenant" and isinstance(found, bytes) != isinstance(expected, bytes):
        if isinstance(expected, bytes):
            return isinstance(found, str) and found.encode() == expected
        return bool(found == expected)
    return bool(_plain(found) == _plain(expected))


def _plain(value: Any) -> Any:
    """Return ``value`` with lists for tuples: serialisers know only one of them."""
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return value


def _same_time(at: datetime, found: Any, expected: Any) -> bool:
    if found is None or expected is None:
        return found is expected
    if isinstance(found, datetime) == isinstance(expected, datetime):
        return bool(found == expected)
    gap = _moment(at, found) - _moment(at, expected)
    return abs(gap.total_seconds()) <= TOLERANCE


def _moment(at: datetime, value: Any) -> datetime:
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.astimezone()
    return at + timedelta(seconds=float(value))


def _shown(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else repr(value)
