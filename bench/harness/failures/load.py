"""A steady load on a scene: what to send, and what became of each call."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from bench.harness.process import Process, until

__all__ = ["Call", "Load", "Orders"]

TENANTS = ("flood", "flood", "flood", "a", "b")


@dataclass(frozen=True, slots=True)
class Orders:
    """What the producer sends: ``rate`` tasks per second for ``seconds``.

    ``batch`` tasks go in one call (1: ``apply_async``, more: ``submit_many``); ``again`` repeats a
    call that was not accepted, for ``patience`` seconds after the planned end.
    """

    rate: float
    seconds: float
    task: str = "failures.work"
    args: Sequence[object] = (0.002,)
    batch: int = 1
    again: bool = True
    patience: float = 60.0
    seed: int = 1
    tenants: Sequence[str] = TENANTS


class Call(NamedTuple):
    """One call's fate: ``A`` accepted, ``R`` refused, ``U`` unknown; monotonic seconds."""

    fate: str
    id: str
    at: float
    error: str


class Load:
    """A producer at work; leaving the scene ends it."""

    def __init__(self, orders: Orders, path: Path, env: Mapping[str, str]) -> None:
        self.orders = orders
        self._path = path
        self.process = Process(
            "producer",
            [sys.executable, "-m", "bench.harness.failures.producer", str(path),
             json.dumps(asdict(orders))],
            env,
        )  # fmt: skip

    def calls(self) -> list[Call]:
        """Return every call made so far, attempts that were not accepted included."""
        if not self._path.exists():
            return []
        lines = self._path.read_text().splitlines(keepends=True)
        found = []
        for line in lines:
            if not line.endswith("\n") or line == "END\n":
                continue  # the end of the file is being written
            fate, task_id, at, *error = line.split()
            found.append(Call(fate, task_id, float(at), " ".join(error)))
        return found

    def accepted(self) -> dict[str, float]:
        """Return the accepted ids, with the monotonic seconds at which the call had returned."""
        return {call.id: call.at for call in self.calls() if call.fate == "A"}

    def refused(self) -> dict[str, str]:
        """Return the ids that were refused for certain and not accepted later, with the error."""
        accepted, known = set(), dict[str, str]()
        for call in self.calls():
            if call.fate == "A":
                accepted.add(call.id)
            elif call.fate == "R":
                known[call.id] = call.error
        return {task_id: error for task_id, error in known.items() if task_id not in accepted}

    def unknown(self) -> set[str]:
        """Return the ids whose last word is ``U``: the server may or may not have taken them."""
        last = {call.id: call.fate for call in self.calls()}
        return {task_id for task_id, fate in last.items() if fate == "U"}

    def began(self, timeout: float = 30.0) -> None:
        """Wait until the first task is accepted; raises BenchError."""

        def there() -> bool:
            self.check()
            return bool(self.accepted())

        until(there, "the load to begin", timeout)

    def check(self) -> None:
        """Raise BenchError when the producer failed."""
        if self.process.code not in (None, 0):
            self.process.check()

    def finish(self, timeout: float | None = None) -> None:
        """Wait for the planned end; raises BenchError when the producer fails or does not end."""
        longest = self.orders.seconds + self.orders.patience + 30
        until(lambda: not self.process.alive, "the load to end", timeout or longest, 0.1)
        self.check()
