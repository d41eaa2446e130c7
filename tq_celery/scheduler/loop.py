"""How every background activity of the scheduler starts, waits, fails and stops.

A loop repeats :meth:`Loop.run_once` in a thread of its own. A round returns how long the loop may
rest; :meth:`Loop.wake` ends the rest early, and a wake-up during a round is not lost. A round that
raises is counted, logged at most once a second and repeated after a back-off that a wake-up cannot
shorten: an unreachable server must not be hammered. Nothing but :meth:`Loop.stop` ends a loop.
"""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod

from tq_celery.errors import StoreUnavailableError
from tq_celery.logs import Log
from tq_celery.scheduler.stats import LoopStats

__all__ = ["FIRST_BACKOFF", "LONGEST_BACKOFF", "Loop", "Quiet"]

#: Seconds a loop rests after its first failure in a row.
FIRST_BACKOFF = 0.05
#: Seconds it rests at most: work resumes within this time after the server is back.
LONGEST_BACKOFF = 0.5

log = Log("tq_celery.scheduler")


class Quiet:
    """Lets one log line a second through for each kind of event and counts the others."""

    def __init__(self, interval: float = 1.0) -> None:
        self._interval = interval
        self._last: dict[str, float] = {}
        self._held: dict[str, int] = {}

    def admit(self, kind: str) -> int | None:
        """Return how many lines of ``kind`` were held back since the last, ``None`` to hold."""
        now = time.monotonic()
        last = self._last.get(kind)
        if last is not None and now - last < self._interval:
            self._held[kind] = self._held.get(kind, 0) + 1
            return None
        self._last[kind] = now
        return self._held.pop(kind, 0)


class Loop(ABC):
    """One background activity; see the module."""

    #: The word for this loop in thread names, statistics and log lines.
    name: str

    def __init__(self, stats: LoopStats, quiet: Quiet) -> None:
        self.stats = stats
        self._quiet = quiet
        self._wakeup = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @abstractmethod
    def run_once(self) -> float:
        """Do one round; return the seconds until the next, unless woken (0 = at once)."""

    def recover(self) -> None:  # noqa: B027 - most loops have nothing to forget
        """Forget what was read ahead of a round that failed."""

    def finish(self) -> None:  # noqa: B027 - most loops leave nothing behind
        """Do what is left to do when the loop has been stopped."""

    @property
    def stopping(self) -> bool:
        """Whether :meth:`stop` has been called: no new write may begin."""
        return self._stopping.is_set()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def wake(self) -> None:
        """End the current rest, or leave out the next one."""
        self._wakeup.set()

    def start(self) -> None:
        """Start the thread; a loop is started once."""
        self._thread = threading.Thread(target=self._run, name=f"tq-{self.name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask the loop to end after the round it is in; returns at once."""
        self._stopping.set()
        self._wakeup.set()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the thread has ended; ``False`` when it has not within ``timeout`` s."""
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def attempt(self) -> float:
        """Run one round as the thread does: failures are counted, logged and turned to a rest."""
        try:
            rest = self.run_once()
        except Exception as error:  # noqa: BLE001 - a loop outlives whatever a round raises
            return -self._failed(error)
        self.stats.succeeded()
        return rest

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wakeup.clear()
            if self._stopping.is_set():  # stop() between the two lines above
                break
            rest = self.attempt()
            if rest < 0:
                self._stopping.wait(-rest)
            elif rest > 0:
                self._wakeup.wait(rest)
        try:
            self.finish()
        except Exception as error:  # noqa: BLE001 - the process is on its way out
            self._report(error, 0.0)

    def _failed(self, error: Exception) -> float:
        """Count a failure and return the seconds to rest."""
        failures = self.stats.failed(error)
        delay = min(LONGEST_BACKOFF, FIRST_BACKOFF * 2.0 ** min(failures - 1, 10))
        delay *= random.uniform(0.75, 1.0)
        self._report(error, delay)
        try:
            self.recover()
        except Exception as again:  # noqa: BLE001 - recovering is local and must not end the loop
            self._report(again, delay)
        return delay

    def _report(self, error: Exception, delay: float) -> None:
        kind = f"{self.name}:{type(error).__name__}"
        held = self._quiet.admit(kind)
        if held is None:
            return
        # An unreachable server is an expected state; anything else deserves its traceback.
        expected = isinstance(error, StoreUnavailableError)
        log.warning(
            "round failed",
            loop=self.name,
            error=error,
            failures=self.stats.consecutive_failures,
            rest=round(delay, 2),
            held_back=held,
            exc_info=None if expected else error,
        )
