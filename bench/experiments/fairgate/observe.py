"""What a window of a run shows: starts, service, backlog, starvation, concurrency. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.harness.record import Row
from tq_celery.measures import jain

__all__ = ["PAUSE", "STARVED", "Observation", "observe", "peak"]

#: Seconds between two samples of the backlog.
PAUSE = 0.05
#: Seconds without a start, work waiting all the while, that make a window of starvation.
STARVED = 0.5


@dataclass(frozen=True, slots=True)
class Observation:
    """One arm, looked at from ``begin`` to ``end`` seconds after the first planned arrival.

    Per tenant: ``starts``, tasks that started in the window and completed; ``service``, what they
    cost; ``backlogged``, the share of samples at which a task was waiting; ``gap``, the longest
    time in seconds with a task waiting and none started; ``starved``, how many windows of
    :data:`STARVED` seconds such times hold.

    ``jain`` is the index over service / weight, tenants without service included. ``rate`` is tasks
    completed in the window a second, ``cost_rate`` what they cost a second, ``busy`` the mean
    number that ran at a time. ``peak`` is the most that ran at a time in the whole run.
    """

    begin: float
    end: float
    starts: dict[str, int]
    service: dict[str, float]
    backlogged: dict[str, float]
    gap: dict[str, float]
    starved: dict[str, int]
    jain: float
    rate: float
    cost_rate: float
    busy: float
    peak: int


def observe(
    rows: Sequence[Row], weights: Mapping[str, float], begin: float, end: float
) -> Observation:
    """Look at ``rows`` from ``begin`` to ``end``; the tenants are those of ``weights``.

    A task waits from its submission to its start, to the end of time when it never completed.
    Without any service in the window the index is 1: nobody got more than another.
    """
    length = end - begin
    started = [row for row in rows if begin <= _start(row) < end]
    ended = [row for row in rows if row.finished is not None and begin <= row.finished < end]
    service = {name: sum(row.cost for row in started if row.tenant == name) for name in weights}
    of = {name: [row for row in rows if row.tenant == name] for name in weights}
    gaps = {name: _gaps(own, begin, end) for name, own in of.items()}
    ran = [(row.started, row.finished) for row in rows if row.started is not None]
    return Observation(
        begin,
        end,
        starts={name: sum(row.tenant == name for row in started) for name in weights},
        service=service,
        backlogged={name: _backlogged(own, begin, end) for name, own in of.items()},
        gap={name: max(found, default=0.0) for name, found in gaps.items()},
        starved={name: sum(int(gap / STARVED) for gap in found) for name, found in gaps.items()},
        jain=jain(service[name] / weight for name, weight in weights.items()),
        rate=len(ended) / length,
        cost_rate=sum(row.cost for row in ended) / length,
        busy=sum(max(0.0, min(last or end, end) - max(first, begin)) for first, last in ran)
        / length,
        peak=peak(rows),
    )


def peak(rows: Sequence[Row]) -> int:
    """Return the most tasks that ran at one time; one that ends as another starts leaves first."""
    changes = [(row.started, 1) for row in rows if row.started is not None]
    changes += [(row.finished, -1) for row in rows if row.finished is not None]
    return max(itertools.accumulate(change for _, change in sorted(changes)), default=0)


def _start(row: Row) -> float:
    return math.inf if row.started is None else row.started


def _backlogged(rows: Sequence[Row], begin: float, end: float) -> float:
    """Return the share of samples, both ends included, at which a task of ``rows`` waits."""
    count = round((end - begin) / PAUSE)
    samples = [begin + (end - begin) * number / count for number in range(count + 1)]
    return sum(any(row.submitted <= at < _start(row) for row in rows) for at in samples) / len(
        samples
    )


def _gaps(rows: Sequence[Row], begin: float, end: float) -> list[float]:
    """Return the seconds between starts, and up to the ends, with a task of ``rows`` waiting.

    Nothing starts in between, so what waits at the end of a stretch has waited since the stretch
    began or since the first of it was submitted.
    """
    starts = sorted(at for row in rows if begin <= (at := _start(row)) < end)
    found = []
    for since, until in itertools.pairwise([begin, *starts, end]):
        waiting = [row.submitted for row in rows if row.submitted < until <= _start(row)]
        if waiting:
            found.append(until - max(since, min(waiting)))
    return found
