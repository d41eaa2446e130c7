"""What a verification says: which promises were broken, by what, and how far it could see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["PROMISES", "Horizon", "StreamSeen", "Verification", "Violation", "text"]

#: The promises by name, in the order in which they are told.
PROMISES = {
    "horizon": "no stream that is read for the books was trimmed",
    "epochs": "epochs never go back",
    "settled_once": "no task is settled twice",
    "one_place": "every live task is in exactly one place",
    "counters": "counters say what the structures hold",
    "conservation": "accepted = settled by outcome + live by state",
    "credit": "never more in flight than the workers, or a cap, allowed",
    "service": "tenants are served as the policy says",
}


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken promise: its name in :data:`PROMISES`, the offending id, and what is wrong.

    ``id`` is a task's key (``nesting.retries.generation.id``), or the entry, counter, tenant or
    Redis key that is wrong where no task can be named.
    """

    promise: str
    id: str
    message: str


@dataclass(frozen=True, slots=True)
class StreamSeen:
    """How much of a stream is there. ``first`` and ``last`` are entry ids, empty without one.

    ``added`` counts what was ever appended to this stream, ``dropped`` what a cap is known to have
    cut off. Both are 0 for a stream that does not exist.
    """

    length: int = 0
    added: int = 0
    dropped: int = 0
    first: str = ""
    last: str = ""


@dataclass(frozen=True, slots=True)
class Horizon:
    """What was looked at: from the first result on until ``until``, ms of the server's clock.

    ``since`` is the ms of the first result, ``until`` where there is none. ``checked`` has the
    number of things compared by promise; ``limits`` says in words what could not be seen.
    """

    since: int
    until: int
    live: int
    results: StreamSeen
    dead: StreamSeen
    checked: Mapping[str, int]
    limits: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found; every violation was seen at two looks at least."""

    namespace: str
    horizon: Horizon
    violations: list[Violation] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether nothing that was looked at breaks a promise."""
        return not self.violations

    def by_promise(self) -> dict[str, list[Violation]]:
        """Return the violations of each promise, in the order of :data:`PROMISES`."""
        return {
            promise: [each for each in self.violations if each.promise == promise]
            for promise in PROMISES
        }

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON types."""
        return {
            "namespace": self.namespace,
            "passed": self.passed,
            "horizon": asdict(self.horizon),
            "violations": [asdict(each) for each in self.violations],
        }


def text(raw: bytes) -> str:
    """Return bytes as text; what is not UTF-8 is escaped."""
    return raw.decode("utf-8", "backslashreplace")
