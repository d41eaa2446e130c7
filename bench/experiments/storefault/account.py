"""What a failover cost: pure arithmetic over logs, calls, records and executions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bench.harness.failures.load import Call
from bench.harness.failures.records import Dispatch, lost, settled_twice, stale
from tq_celery.states import Outcome

__all__ = ["Account", "Lead", "account", "given_twice", "leads"]


class Lead(NamedTuple):
    """A term, as the scheduler that led wrote it into its log: this outlives every server."""

    epoch: int
    owner: str


@dataclass(frozen=True, slots=True)
class Account:
    """The balance of one trial. Numbers are of tasks unless their name says otherwise.

    ``destroyed`` were accepted before the primary died, and the server that took over knows nothing
    of them; of these, ``destroyed_run`` were run all the same. ``lost`` were accepted afterwards
    and have no outcome, which must never be. ``run_again`` have started more than once.
    ``dispatched_under_them``: under an epoch that was given twice. ``accepting_ms`` and
    ``dispatching_ms`` are from the primary's death until the first submission that was accepted,
    and the first dispatch, afterwards; None when there was none.
    """

    epochs: Sequence[int]
    given_twice: Sequence[int]
    dispatched_under_them: int
    accepted: int
    refused: int
    unknown: int
    completed: int
    destroyed: int
    destroyed_run: int
    lost: Sequence[str]
    run_again: int
    settled_twice: int
    stale_dispatches: int
    accepting_ms: float | None
    dispatching_ms: int | None


def leads(logs: Iterable[str]) -> list[Lead]:
    """Return the terms that logs of schedulers (JSON lines) tell of, in order."""
    found = []
    for log in logs:
        for line in log.splitlines():
            if not (line.startswith("{") and line.endswith("}")):
                continue  # printed by somebody else, or still being written
            if (said := json.loads(line))["message"] == "leading":
                found.append((said["at"], Lead(int(said["epoch"]), str(said["owner"]))))
    return [term for _, term in sorted(found)]


def given_twice(terms: Iterable[Lead]) -> list[int]:
    """Return the epochs under which more than one scheduler has led."""
    pairs = Counter(epoch for epoch, _ in set(terms))
    return sorted(epoch for epoch, owners in pairs.items() if owners > 1)


def account(
    terms: Sequence[Lead],
    calls: Sequence[Call],
    records: Sequence[Dispatch],
    starts: Counter[str],
    died: float,
    died_ms: int,
) -> Account:
    """Balance one trial.

    ``died`` is when the primary was killed, in monotonic seconds as calls are, and ``died_ms`` in
    ms on the servers' clock.
    """
    accepted = {call.id: call.at for call in calls if call.fate == "A"}
    twice = given_twice(terms)
    gone = lost(accepted, records)
    destroyed = [task_id for task_id in gone if accepted[task_id] <= died]
    later = [at for at in accepted.values() if at > died]
    dispatched = [each.entry[0] for each in records if each.entry[0] > died_ms]
    return Account(
        epochs=[epoch for epoch, _ in terms],
        given_twice=twice,
        dispatched_under_them=sum(each.epoch in twice for each in records),
        accepted=len(accepted),
        refused=sum(call.fate == "R" for call in calls),
        unknown=sum(call.fate == "U" for call in calls),
        completed=sum(each.outcome == Outcome.COMPLETED for each in records),
        destroyed=len(destroyed),
        destroyed_run=sum(task_id in starts for task_id in destroyed),
        lost=[task_id for task_id in gone if accepted[task_id] > died],
        run_again=sum(often > 1 for often in starts.values()),
        settled_twice=len(settled_twice(records)),
        stale_dispatches=len(stale(records)),
        accepting_ms=(min(later) - died) * 1000 if later else None,
        dispatching_ms=min(dispatched) - died_ms if dispatched else None,
    )
