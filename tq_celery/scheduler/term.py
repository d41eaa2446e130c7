"""A loop that works only while this process leads."""

from __future__ import annotations

from abc import abstractmethod

from tq_celery.errors import FencedError
from tq_celery.scheduler.leader import Leadership
from tq_celery.scheduler.loop import Loop, Quiet
from tq_celery.scheduler.stats import LoopStats

__all__ = ["FOLLOWER_REST", "TermLoop"]

#: Seconds a follower's loop rests; the start of a term wakes it.
FOLLOWER_REST = 30.0


class TermLoop(Loop):
    """Calls :meth:`begin` at the start of each term and :meth:`step` for as long as it lasts.

    The term is looked at before each step, and :meth:`leads` before each write of a longer one.
    A step that the fence refuses ends the term for the whole process.
    """

    def __init__(self, leadership: Leadership, stats: LoopStats, quiet: Quiet) -> None:
        super().__init__(stats, quiet)
        self._leadership = leadership
        self._epoch = 0
        leadership.subscribe(self.wake)

    @abstractmethod
    def begin(self, epoch: int) -> None:
        """Start from what the store holds: nothing known from an earlier term is valid."""

    @abstractmethod
    def step(self, epoch: int) -> float:
        """Do one bounded piece of work; return the seconds to rest, as ``run_once`` does."""

    def leads(self, epoch: int) -> bool:
        """Whether a write under ``epoch`` may begin now."""
        return self._leadership.epoch() == epoch and not self.stopping

    def run_once(self) -> float:
        """Do one step of the present term, or rest as a follower."""
        epoch = self._leadership.epoch()
        if not epoch:
            self._epoch = 0
            return FOLLOWER_REST
        try:
            if epoch != self._epoch:
                self.begin(epoch)
                self._epoch = epoch
            return self.step(epoch)
        except FencedError as error:
            self._epoch = 0
            self.stats.fenced += 1
            self._leadership.epochs.heard(error.fence)
            self._leadership.refuse(epoch)
            return 0.0

    def recover(self) -> None:
        """Begin the term again after a failure."""
        self._epoch = 0
