"""What is done to the leader, how often, under which load; and what is noted while it happens."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ARMS", "DEFAULT_TTL", "TTLS", "Course", "Plan"]

#: What happens to the leader; ``single`` is ``crash`` without anybody to take over.
ARMS = ("none", "graceful", "crash", "single", "pause")
#: Leases that are tried, and the one that a scheduler has unless told otherwise; seconds.
TTLS, DEFAULT_TTL = (2.0, 5.0, 10.0), 2.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Times in seconds, ``rate`` in tasks per second."""

    trials: int = 15
    rate: float = 1_100.0
    task_seconds: float = 0.002
    #: More than the load needs, so that a worker that pauses for some milliseconds does not hold up
    #: the dispatch that is to be measured.
    slots: int = 32
    #: How long a trial of ``none`` watches.
    seconds: float = 20.0
    #: How long a resumed leader gets to misbehave.
    afterwards: float = 3.0
    #: Most trials that follow each other on one cluster.
    together: int = 8
    #: Between two samples of who claims to lead.
    sample: float = 0.25
    seed: int = 1


@dataclass(slots=True)
class Course:
    """What was done in one trial, and when: ms on the server's clock unless it says monotonic.

    ``event`` is read right before the signal is sent, ``shown`` once it has had its effect.
    ``free`` is when the lease is free: by its time to live, read after a signal that left it, or
    None where it is released. ``epoch`` led before. A trial's own tasks are those accepted from
    ``began`` (monotonic seconds) to the ``began`` of the next one.
    """

    arm: str
    ttl: float
    number: int
    began: float
    event: int = 0
    shown: int = 0
    free: int | None = None
    epoch: int = 0
    ended: int = 0
    #: Writes that the fence refused to the leader that was frozen, after it was resumed.
    fenced: int = 0
    #: What ended the term of the leader that was frozen: ``fence``, ``lease``, ``worker`` (one that
    #: has had a task from a newer leader), or its own words.
    stopped_by: str = ""
    #: Most schedulers that claimed to lead at the same moment, and samples taken.
    leaders: int = 0
    samples: int = 0
