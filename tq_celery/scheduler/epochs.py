"""Which epochs this process knows to have been in use, so that none is used twice.

An epoch tells the writes of one term from those of all others, so it must be given once. The server
that gives it cannot promise that alone: it may lose its last grants, because a replica that had not
received them took its place, or because it came back from a disk that had not either. Its counter
then gives a number again, and the fence lets the writes of both terms pass.

So everybody who has seen an epoch remembers it beyond the server, and it is enough that one of them
is still there:

* A scheduler remembers the newest epoch it was granted, found in force, or was told of by a worker,
  and names it as the *floor* of its next attempt. A grant is above it.
* A standby whose floor is above the epoch in force has the leader elected anew: the attempt lets
  the leader's next renewal fail.
* A scheduler that finds its own epoch in force, and another leading, knows that it was given twice.
* A worker announces the newest epoch that handed it a task, and when the first one was. A leader
  that reads of a newer epoch than its own, or of its own at a time before its own grant, steps down
  and runs again, above it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from tq_celery.store.contract import Grant, WorkerAnnouncement

__all__ = ["NEWER", "USED_BEFORE", "Epochs"]

#: Why a term is over: another leads since, or led before under the same epoch.
NEWER, USED_BEFORE = "a newer epoch is in use", "its epoch was in use before"


class Epochs:
    """The newest epoch known here; safe to use from every loop's thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest = 0
        self._own = Grant(0, 0)

    @property
    def newest(self) -> int:
        """The newest epoch that is known to have been in use."""
        return self._newest

    def heard(self, epoch: int) -> bool:
        """Note that ``epoch`` has been in use; returns whether that is news."""
        with self._lock:
            news = epoch > self._newest
            if news:
                self._newest = epoch
            return news

    def granted(self, grant: Grant) -> None:
        """Note a grant to this process."""
        self._own = grant
        self.heard(grant.epoch)

    def refused(self, grant: Grant) -> bool:
        """Note under which epoch another leads.

        True when that epoch is not above the last one of this process: it, or the one that this
        process had then, is given a second time. The floor is then above both.
        """
        if self._own.epoch and grant.in_force <= self._own.epoch:
            return self.heard(self._own.epoch + 1)
        self.heard(grant.in_force)
        return False

    def is_over(self, epoch: int, workers: Iterable[WorkerAnnouncement]) -> str:
        """Take in what workers announce; return why our term ``epoch`` is over, empty if not."""
        own, reason = self._own, ""
        for worker in workers:
            self.heard(worker.epoch)
            if worker.epoch > epoch:
                reason = reason or NEWER
            elif worker.epoch == own.epoch == epoch and worker.epoch_since < own.at:
                reason = USED_BEFORE
        return reason
