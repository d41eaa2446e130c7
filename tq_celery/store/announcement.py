"""What a worker says of itself with every renewal, and how that is written down.

Beside what it offers, a worker bears witness: it names the newest epoch under which a task was
handed to it, and when the first one was. A server that took over from another may have lost that
epoch; the worker has not.

A field that a release before did not write has its default, and one that it does not know is not
looked at, so workers and schedulers of two releases serve one namespace.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

__all__ = ["LAST_EPOCH", "WorkerAnnouncement", "announced_as", "parse_announcement"]

#: An epoch above this was given by no election; nobody's word for one is taken.
LAST_EPOCH = 2**48


@dataclass(frozen=True, slots=True)
class WorkerAnnouncement:
    """What a worker offers: ``slots`` for scheduled tasks and ``ahead`` tasks of read-ahead.

    ``epoch`` is the newest epoch that handed it a task and ``epoch_since`` the ms, on the store's
    clock, at which its first task of that epoch was dispatched; both 0 before the first.
    ``expires`` is not announced: it is the lease, which a reader of announcements adds.
    """

    worker: str
    queues: tuple[str, ...]
    slots: int
    ahead: int
    host: str = ""
    pid: int = 0
    pool: str = ""
    expires: int = 0
    epoch: int = 0
    epoch_since: int = 0


def announced_as(announcement: WorkerAnnouncement) -> str:
    """Return the announcement as it is stored, JSON."""
    return json.dumps(
        {
            "queues": announcement.queues,
            "slots": announcement.slots,
            "ahead": announcement.ahead,
            "host": announcement.host,
            "pid": announcement.pid,
            "pool": announcement.pool,
            "epoch": announcement.epoch,
            "epoch_since": announcement.epoch_since,
        }
    )


def parse_announcement(worker: str, raw: bytes | None, expires: int) -> WorkerAnnouncement:
    """Return a worker's announcement; one that cannot be read offers nothing."""
    try:
        offer = json.loads(raw or b"{}")
        epoch = int(offer.get("epoch", 0))
        return WorkerAnnouncement(
            worker,
            tuple(str(queue) for queue in offer.get("queues", ())),
            int(offer.get("slots", 0)),
            int(offer.get("ahead", 0)),
            str(offer.get("host", "")),
            int(offer.get("pid", 0)),
            str(offer.get("pool", "")),
            expires,
            epoch if 0 <= epoch <= LAST_EPOCH else 0,
            int(offer.get("epoch_since", 0)),
        )
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return WorkerAnnouncement(worker, (), 0, 0, expires=expires)
