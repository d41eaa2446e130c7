"""Pure measures: spreads of paired ratios, command statistics, rates from samples.

No clock and no I/O here, so each number in a report can be recomputed from its raw data.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tq_celery.measures import percentile

__all__ = [
    "Calls",
    "Sample",
    "Spread",
    "command_calls",
    "command_difference",
    "movement",
    "paired_ratio",
    "percentile",
    "spread",
    "total_microseconds",
]


class Spread(NamedTuple):
    """Several repetitions of one figure."""

    median: float
    min: float
    max: float


class Calls(NamedTuple):
    """One command's share of ``INFO commandstats``: number of calls and server microseconds."""

    calls: int
    usec: float


class Sample(NamedTuple):
    """``done`` items at monotonic second ``at``."""

    at: float
    done: int


def spread(values: Sequence[float]) -> Spread:
    """Return median, least and greatest of ``values``; raises ``ValueError`` for none."""
    if not values:
        raise ValueError("spread of no values")
    return Spread(statistics.median(values), min(values), max(values))


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Return the spread of ``ours[i] / theirs[i]``, one ratio per repetition.

    Both sides of a pair ran next to each other, so drift of the machine cancels out of each ratio.
    Raises ``ValueError`` when the lengths differ or a rival's figure is not positive.
    """
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} repetitions against {len(theirs)}")
    if any(value <= 0 for value in theirs):
        raise ValueError("a ratio needs positive figures")
    return spread([a / b for a, b in zip(ours, theirs, strict=True)])


def command_calls(info: Mapping[str, object]) -> dict[str, Calls]:
    """Return redis-py's ``info("commandstats")`` as ``{command: Calls}``."""
    calls: dict[str, Calls] = {}
    for name, stats in info.items():
        if isinstance(stats, Mapping):
            word = name.removeprefix("cmdstat_")
            calls[word] = Calls(int(stats["calls"]), float(stats["usec"]))
    return calls


def command_difference(before: Mapping[str, Calls], after: Mapping[str, Calls]) -> dict[str, Calls]:
    """Return what ran between two readings; commands that did not run are left out.

    A counter that went backwards (``CONFIG RESETSTAT`` or a restart between the readings) raises
    ``ValueError``: the difference would be invented.
    """
    difference: dict[str, Calls] = {}
    for name, now in after.items():
        was = before.get(name, Calls(0, 0.0))
        if now.calls < was.calls:
            raise ValueError(f"statistics of {name!r} were reset between the readings")
        if now.calls > was.calls:
            difference[name] = Calls(now.calls - was.calls, now.usec - was.usec)
    return difference


#: Commands whose statistics already contain those of the commands called by their script.
_SCRIPT_COMMANDS = frozenset({"eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro"})


def total_microseconds(
    calls: Mapping[str, Calls], direct: Sequence[str] = ("xread", "xreadgroup", "hmget")
) -> float:
    """Return the server's microseconds: scripts plus the ``direct`` commands.

    A script's figure includes the commands it calls, which the server counts a second time under
    their own names; only commands named in ``direct``, sent by clients themselves, are added.
    """
    wanted = _SCRIPT_COMMANDS.union(direct)
    return sum(stats.usec for name, stats in calls.items() if name in wanted)


def movement(samples: Sequence[Sample]) -> float:
    """Return items per second from the first sample that shows progress to the last that does.

    Process start-up before the first item and idle samples after the last do not count, nor do the
    items that were done before the clock started. Raises ``ValueError`` without two such samples.
    """
    moved = [now for previous, now in itertools.pairwise(samples) if now.done > previous.done]
    if len(moved) < 2:
        raise ValueError("progress was seen in fewer than two samples: use more tasks")
    first, last = moved[0], moved[-1]
    return (last.done - first.done) / (last.at - first.at)
