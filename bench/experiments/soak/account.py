"""What became of every task: pure arithmetic over what was sent, run and recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

__all__ = ["Account", "Fault", "Run", "account", "read_accepted", "read_runs"]

#: Seconds after its body's end within which a task may be executed but not yet settled.
SETTLING = 1.0

Key = tuple[str, int]


class Fault(NamedTuple):
    """One thing that was done: when (monotonic seconds, from and until), to what, and how."""

    at: float
    until: float
    kind: str
    target: str


class Run(NamedTuple):
    """One start of a body; ``ended`` is ``None`` when it never got there."""

    key: Key
    worker: str
    started: float
    ended: float | None


@dataclass(frozen=True, slots=True)
class Account:
    """The balance of a soak. Everything but ``tasks`` and ``duplicates`` should be empty or 0."""

    tasks: int
    lost: Sequence[Key]
    settled_twice: Sequence[Key]
    wrong_outcome: Sequence[tuple[Key, str]]
    unexpected: Sequence[Key]
    #: Executions beyond the first.
    duplicates: int
    #: Those whose earlier execution nobody interrupted.
    unexplained: Sequence[Key]
    #: Structures that should be empty, with their sizes.
    left: Mapping[str, int]

    @property
    def passed(self) -> bool:
        """Whether nothing was lost, settled twice, run twice without a cause, or left over."""
        return not (
            self.lost or self.settled_twice or self.wrong_outcome or self.unexpected
            or self.unexplained or any(self.left.values())
        )  # fmt: skip


def read_accepted(path: Path) -> dict[str, str]:
    """Return the kind of each accepted task by its id."""
    pairs = (line.split() for line in path.read_text().splitlines())
    return {task_id: kind for kind, task_id in pairs}


def read_runs(path: Path) -> list[Run]:
    """Return every start of a body, with its end where there is one."""
    started: dict[tuple[str, str, str], list[float]] = {}
    runs: list[Run] = []
    for line in path.read_text().splitlines():
        word, task_id, retries, worker, at = line.split()
        name = (task_id, retries, worker)
        if word == "S":
            started.setdefault(name, []).append(float(at))
        else:
            runs.append(Run((task_id, int(retries)), worker, started[name].pop(0), float(at)))
    for (task_id, retries, worker), times in started.items():
        runs += [Run((task_id, int(retries)), worker, at, None) for at in times]
    return runs


def account(
    accepted: Mapping[str, str],
    recorded: Iterable[tuple[Key, str]],
    runs: Iterable[Run],
    faults: Sequence[Fault],
    left: Mapping[str, int],
) -> Account:
    """Compare what was accepted with the result records and with the executions."""
    expected: dict[Key, str] = {}
    for task_id, kind in accepted.items():
        expected[task_id, 0] = {"failing": "failed", "retried": "retried"}.get(kind, "completed")
        if kind == "retried":
            expected[task_id, 1] = "completed"
    outcomes: dict[Key, list[str]] = {}
    for key, outcome in recorded:
        outcomes.setdefault(key, []).append(outcome)
    by_key: dict[Key, list[Run]] = {}
    for run in runs:
        by_key.setdefault(run.key, []).append(run)
    unexplained = [
        key
        for key, several in by_key.items()
        for run in sorted(several, key=lambda run: run.started)[:-1]
        if not _interrupted(run, faults)
    ]
    starts = Counter({key: len(several) for key, several in by_key.items()})
    return Account(
        tasks=len(expected),
        lost=[key for key in expected if key not in outcomes],
        settled_twice=[key for key, words in outcomes.items() if len(words) > 1],
        wrong_outcome=[
            (key, words[0])
            for key, words in outcomes.items()
            if key in expected and words[0] != expected[key]
        ],
        unexpected=[key for key in outcomes if key not in expected],
        duplicates=sum(starts.values()) - len(starts),
        unexplained=unexplained,
        left=left,
    )


def _interrupted(run: Run, faults: Sequence[Fault]) -> bool:
    """Whether a fault kept this execution from being settled.

    Its worker was killed before or just after the end of the body, or the server was away when the
    outcome should have been written and the worker ended before it was back.
    """
    ended = run.ended if run.ended is not None else float("inf")
    killed = any(
        fault.kind == "worker killed"
        and fault.target == run.worker
        and run.started <= fault.at <= ended + SETTLING
        for fault in faults
    )
    return killed or any(
        fault.kind.startswith("server")
        and fault.at <= ended + SETTLING
        and run.started <= fault.until
        for fault in faults
    )
