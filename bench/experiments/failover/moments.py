"""From the records of a cluster to what each trial found: pure arithmetic.

The *outage* is the longest time without a dispatch from the last one at or before the event to the
first one under a later epoch. That is the gap around the event when the leader dies in it; a leader
that is asked to stop goes on for some milliseconds, and its own last dispatches do not end the
outage. It is split at the moment when the lease was free::

    outage  =  time until the lease is free  +  time until a standby acts

The first term starts with the last dispatch of the old term, the second ends with the first one of
the new term.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from bench.experiments.failover.plan import Course
from bench.harness.failures.records import Dispatch, settled_twice, stale
from bench.harness.measure import percentile

__all__ = ["Grants", "Quiet", "Trial", "quiet", "standstill", "trials", "waiting"]

Stamp = tuple[int, int]

#: Dispatches after a gap among which the task is looked for that had waited through it.
TOGETHER = 50


class Grants(NamedTuple):
    """Moments in ms by epoch, from the stream in which grants and releases are announced."""

    granted: Mapping[int, int]
    released: Mapping[int, int]


class Quiet(NamedTuple):
    """Time without a dispatch between two moments, ms: the longest, and p99.9 of all gaps."""

    longest: int
    p999: float
    dispatches: int
    #: Dispatches per second.
    rate: float


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial, JSON as it is; ms. ``outage_ms`` is None when nobody dispatched again.

    ``watched_ms`` is how long there was no dispatch when the watch ended, of a trial without
    recovery. ``lease_ms`` and ``act_ms`` are the two terms of the outage, ``grant_ms`` the part of
    the second until the standby was granted the lease. ``dispatches`` and ``rate`` are of the whole
    trial of ``none``, and of the second before the event elsewhere. ``waiting_ms`` is the part of
    the longest gap of ``none`` in which there was a task to dispatch.
    """

    arm: str
    ttl: float
    number: int
    outage_ms: int | None
    watched_ms: int | None
    p999_ms: float | None
    waiting_ms: int | None
    lease_ms: int | None
    grant_ms: int | None
    act_ms: int | None
    dispatches: int
    rate: float
    tasks: int
    lost: int
    duplicates: int
    executed_twice: int
    stale_dispatches: int
    fenced_writes: int
    stopped_by: str
    leaders: int
    samples: int


def quiet(times: Sequence[int], since: int, until: int) -> Quiet:
    """Return the gaps of sorted ``times`` within the window; its ends count as dispatches.

    Raises ``ValueError`` for a window without a dispatch or without a length.
    """
    inside = times[bisect_left(times, since) : bisect_right(times, until)]
    if not inside or until <= since:
        raise ValueError(f"no dispatch from {since} to {until}")
    gaps = [after - before for before, after in pairwise([since, *inside, until])]
    rate = len(inside) / (until - since) * 1000
    return Quiet(max(gaps), percentile(sorted(gaps), 99.9), len(inside), rate)


def waiting(handed: Sequence[Dispatch], since: int, until: int) -> int:
    """Return how much of the longest gap between two dispatches of the window had a task to offer.

    The rest of it is the producer's: nothing had come. ``handed`` in the order of dispatch, ms.
    """
    inside = [i for i, each in enumerate(handed) if since <= each.entry[0] <= until]
    if len(inside) < 2:
        return 0
    before, after = max(
        pairwise(inside), key=lambda pair: handed[pair[1]].entry[0] - handed[pair[0]].entry[0]
    )
    began, ended = handed[before].entry[0], handed[after].entry[0]
    # a few are dispatched together, and the one that had waited longest need not be the first
    came = min(each.submitted for each in handed[after : after + TOGETHER])
    return ended - min(ended, max(began, came))


def standstill(stamps: Sequence[Stamp], event: int, epoch: int) -> tuple[int, int, int] | None:
    """Return the longest pause, the last stamp of the old term and the first of the new one, ms.

    ``stamps`` are (ms, epoch) in order. None when nothing was dispatched before the event, or
    nothing under an epoch above ``epoch`` after it.
    """
    before = bisect_right(stamps, event, key=lambda each: each[0]) - 1
    after = next((i for i in range(before + 1, len(stamps)) if stamps[i][1] > epoch), None)
    if before < 0 or after is None:
        return None
    times = [ms for ms, _ in stamps[before : after + 1]]
    return max(later - sooner for sooner, later in pairwise(times)), times[-2], times[-1]


def trials(
    courses: Sequence[Course],
    records: Sequence[Dispatch],
    accepted: Mapping[str, float],
    started: Iterable[str],
    grants: Grants,
) -> list[Trial]:
    """Return what each trial of one cluster found.

    ``records`` in the order of dispatch, ``accepted`` with monotonic seconds, ``started`` the id of
    each start of a body. Tasks from before the first trial belong to it.
    """
    handed = [each for each in records if each.entry != (0, 0)]
    stamps = [(each.entry[0], each.epoch) for each in handed]
    settled = {each.key[0] for each in records}
    twice = {key[0] for key in settled_twice(records)}
    starts = Counter(started)
    own = _own(courses, accepted)
    late = [each.entry[0] for each in stale(records)]
    ends = [course.event for course in courses[1:]]
    found = []
    for number, course in enumerate(courses):
        ids = own[number]
        found.append(
            _trial(
                course,
                handed,
                stamps,
                grants,
                tasks=len(ids),
                lost=sum(each not in settled for each in ids),
                duplicates=sum(each in twice for each in ids),
                executed_twice=sum(starts[each] > 1 for each in ids),
                stale_dispatches=sum(bisect_right(ends, ms) == number for ms in late),
            )
        )
    return found


def _own(courses: Sequence[Course], accepted: Mapping[str, float]) -> list[list[str]]:
    """Return the ids of the tasks of each trial."""
    begins = [course.began for course in courses]
    own: list[list[str]] = [[] for _ in courses]
    for task_id, at in accepted.items():
        own[max(0, bisect_right(begins, at) - 1)].append(task_id)
    return own


def _trial(
    course: Course,
    handed: Sequence[Dispatch],
    stamps: Sequence[Stamp],
    grants: Grants,
    *,
    tasks: int,
    lost: int,
    duplicates: int,
    executed_twice: int,
    stale_dispatches: int,
) -> Trial:
    times = [ms for ms, _ in stamps]
    outage = watched = lease = grant = act = None
    p999 = waited = None
    if course.arm == "none":
        seen = quiet(times, course.event, course.ended)
        outage, p999 = seen.longest, seen.p999
        waited = waiting(handed, course.event, course.ended)
    else:
        seen = quiet(times, course.event - 1000, course.event)
        until = bisect_right(times, course.ended)
        stopped = standstill(stamps[:until], course.event, course.epoch)
        if stopped is None:
            watched = course.ended - times[until - 1]
        else:
            outage, last, first = stopped
            lease, grant, act = _terms(course, grants, last, first)
    return Trial(
        course.arm, course.ttl, course.number, outage, watched, p999, waited, lease,
        grant, act,
        seen.dispatches, seen.rate, tasks, lost, duplicates, executed_twice, stale_dispatches,
        course.fenced, course.stopped_by, course.leaders, course.samples,
    )  # fmt: skip


def _terms(
    course: Course, grants: Grants, last: int, first: int
) -> tuple[int | None, int | None, int | None]:
    """Return the time until the lease was free, from then to the grant, and to the first act."""
    free = course.free if course.free is not None else grants.released.get(course.epoch)
    if free is None:
        return None, None, None
    granted = min(
        (ms for epoch, ms in grants.granted.items() if epoch > course.epoch), default=None
    )
    return free - last, None if granted is None else granted - free, first - free
