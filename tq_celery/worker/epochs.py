"""The newest epoch that handed this worker a task, remembered beyond the server.

A server that took over from another may have lost that epoch and be led under an older one, and a
superseded leader may write to it: there the fence knows no better. The worker does. A delivery of
an older epoch that was dispatched *after* the first one of a newer epoch cannot be: the fence would
have refused it. So it is not started but given back, uncounted, and by the announcement of what the
worker knows the leader runs again, above it, within a second or so.

What an older epoch dispatched before that is as good as ever, however late it is read.

A leader of a release that does not read epochs in announcements goes on all the same. Its tasks are
to run, so after :data:`PATIENCE` of refusals the worker gives in and takes that epoch for the
newest.
"""

from __future__ import annotations

from tq_celery.logs import Log
from tq_celery.store.announcement import LAST_EPOCH
from tq_celery.store.contract import Token

__all__ = ["AWAY", "PATIENCE", "Epochs"]

#: Seconds for which one epoch is refused.
PATIENCE = 10.0
#: How long a refused delivery is kept out of reach, ms: until the leader has run again.
AWAY = 1000
#: Seconds between two lines about refusals.
TELL_EVERY = 1.0

log = Log("tq_celery.worker")


class Epochs:
    """Of the I/O thread. ``newest`` is 0 before the first delivery; ``since`` is the store's ms."""

    def __init__(self) -> None:
        self.newest = 0
        self.since = 0
        self._refused, self._refused_from = 0, 0.0
        self._untold, self._told = 0, float("-inf")

    def refuses(self, token: Token, now: float) -> bool:
        """Whether the delivery must not be started; takes note of its epoch. ``now`` is monotonic.

        What cannot be read has epoch 0 and is let through: others deal with it.
        """
        epoch, at = token.epoch, int(token.entry.partition(b"-")[0])
        if self.newest < epoch <= LAST_EPOCH:
            self._take_for_newest(epoch, at)
        elif 0 < epoch < self.newest and at > self.since:
            if epoch != self._refused:
                self._refused, self._refused_from = epoch, now
            if now - self._refused_from < PATIENCE:
                self._tell(epoch, now)
                return True
            log.warning("the leader holds on to an older epoch", epoch=epoch, newest=self.newest)
            self._take_for_newest(epoch, at)
        return False

    def _take_for_newest(self, epoch: int, at: int) -> None:
        self.newest, self.since = epoch, at
        self._refused = 0

    def _tell(self, epoch: int, now: float) -> None:
        self._untold += 1
        if now - self._told >= TELL_EVERY:
            log.warning(
                "a superseded leader's deliveries are given back",
                deliveries=self._untold,
                epoch=epoch,
                newest=self.newest,
            )
            self._untold, self._told = 0, now
