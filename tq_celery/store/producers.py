"""The producers' connections of one process, and one total deadline for each submission.

A line is taken from a free list and put back, so each connection has one caller at a time: threads
and greenlets share nothing, and there are never more connections than submissions at once. A child
process starts with an empty list and leaves its parent's sockets alone.

Submitting is idempotent by key, so it is repeated blindly inside the deadline; how often a reply
was lost makes no difference (redis/redis-py #3554). The server is told the deadline in its own
time: what it comes to later, having been frozen or paused, changes nothing any more.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from tq_celery.errors import StoreUnavailableError
from tq_celery.settings import Settings
from tq_celery.store.contract import Limits, Receipt, Submission
from tq_celery.store.line import Line, open_line
from tq_celery.store.producer import Results

__all__ = ["Line", "Producers"]

#: Part of the remaining time that one try may take, so that another on a new connection can follow.
_SHARE = 0.6
#: Below this part of the deadline a try gets all that is left.
_LAST_TRY = 0.25
#: Seconds before the first repeat, and the longest pause between two.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
#: Refusals that do not pass within a call's time; the caller is told at once.
_LASTING = ("OOM", "MISCONF", "AUTH")
#: Seconds for which a call is repeated that the server refuses with another word.
_REFUSED = 0.5

Reply = TypeVar("Reply")
Step = Callable[[Line, Limits], Reply]


class Producers:
    """A :class:`ProducerStore` for any number of threads, greenlets and forked processes.

    Raises StoreUnavailableError when the deadline (``publish_timeout`` of the settings) has passed,
    and soon when the server answers that it is out of memory, read-only, loading or the like. Its
    ``undone`` then speaks for all tries of the call.
    """

    def __init__(
        self, settings: Settings, open_line: Callable[[Settings], Line] = open_line
    ) -> None:
        self._settings = settings
        self._open = open_line
        self._pid = os.getpid()
        self._free: deque[Line] = deque()
        #: Milliseconds by which the store's clock is ahead of this machine's, as last seen.
        self.clock_offset = 0

    def submit(
        self, submission: Submission, limits: Limits, *, once: bool = False, hurried: bool = False
    ) -> Receipt:
        """Submit one task; ``once`` gives up after the first failure of the connection.

        ``hurried`` gives up as soon as the server is away or refuses and nothing was done.
        """
        receipt = self._run(
            lambda line, held: line.store.submit(submission, held), limits, once, hurried
        )
        self.clock_offset = receipt.at - int(time.time() * 1000)
        return receipt

    def submit_many(
        self,
        submissions: Sequence[Submission],
        limits: Limits,
        *,
        seconds: float | None = None,
        doubt: bool = False,
    ) -> Results:
        """Submit tasks in batches; see :class:`ProducerStore`.

        ``seconds`` replaces the deadline; ``doubt`` tells that they may have been taken before.
        """
        return self._run(
            lambda line, held: line.store.submit_many(submissions, held),
            limits,
            seconds=seconds,
            doubt=doubt,
        )

    def start_many(
        self, batch: Sequence[Submission], limits: Limits, *, hurried: bool = False
    ) -> Callable[[], Results]:
        """Send up to a batch now; the returned call waits for the results.

        The time between the two does not count; whatever goes wrong is raised by the call.
        """
        sent = _Sent(self, batch, limits, self._settings.publish_timeout)
        return lambda: sent.finish(hurried)

    def close(self) -> None:
        """Close the free connections; the next submission opens a new one."""
        self._of_this_process()
        while self._free:
            self._free.pop().close()

    def _of_this_process(self) -> None:
        if self._pid != os.getpid():
            self._free, self._pid = deque(), os.getpid()

    def take(self) -> Line:
        """Take a line off the free list, or make one."""
        self._of_this_process()
        try:
            return self._free.pop()
        except IndexError:
            return self._open(self._settings)

    def put_back(self, line: Line, error: StoreUnavailableError | None = None) -> None:
        """Give a line back, for another caller; its connection opens again when it has failed."""
        if error is not None and error.refusal and error.refusal not in _LASTING:
            line.close()  # a new connection may lead to another server
        self._free.append(line)

    def _run(
        self,
        step: Step[Reply],
        limits: Limits,
        once: bool = False,
        hurried: bool = False,
        *,
        seconds: float | None = None,
        doubt: bool = False,
    ) -> Reply:
        """Repeat a step within its time; with ``doubt``, an earlier try may have been done."""
        total = self._settings.publish_timeout
        began, pause = time.monotonic(), _FIRST_PAUSE
        give_up = began + (total if seconds is None else seconds)
        while True:
            left = give_up - time.monotonic()
            share = 1.0 if once or left <= total * _LAST_TRY else _SHARE
            line = self.take()
            failed = None
            try:
                return line.attempt(step, limits, left * share, give_up)
            except StoreUnavailableError as error:
                failed, doubt = error, doubt or not error.undone
                now = time.monotonic()
                refused = bool(error.refusal) and now - began > _REFUSED
                hopeless = refused or error.refusal in _LASTING or (hurried and not doubt)
                if once or hopeless or now + 2 * pause > give_up:
                    error.undone = not doubt
                    if doubt and not (once or hopeless):
                        # a server that goes on in these last moments would still take it
                        time.sleep(max(0.0, give_up - now))
                    raise
            finally:
                self.put_back(line, failed)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


class _Sent:
    """A batch on its way."""

    def __init__(
        self, producers: Producers, batch: Sequence[Submission], limits: Limits, seconds: float
    ) -> None:
        self._producers, self._batch, self._limits = producers, batch, limits
        self._wait: Callable[[], Results] | None = None
        self._failed: StoreUnavailableError | None = None
        began = time.monotonic()
        self._line = line = producers.take()
        try:
            self._wait = line.attempt(
                lambda line, held: line.begin(batch, held),
                limits,
                seconds * _SHARE,
                began + seconds,
            )
        except StoreUnavailableError as error:
            self._failed = error
        finally:
            if self._wait is None:
                producers.put_back(line, self._failed)
        self._asked = began
        self._left = seconds - (time.monotonic() - began)

    def finish(self, hurried: bool = False) -> Results:
        """Wait for the results, or send the batch again; raises StoreUnavailableError."""
        began, line, failed = time.monotonic(), self._line, self._failed
        if self._wait is not None:
            line.be_patient(max(self._left * _SHARE, _FIRST_PAUSE))
            try:
                reply = self._wait()
                line.learn(reply, self._asked)
                return reply
            except StoreUnavailableError as error:
                failed = error
            finally:
                self._producers.put_back(line, failed)
        assert failed is not None
        left = self._left - (time.monotonic() - began)
        hopeless = failed.refusal in _LASTING or (hurried and failed.undone)
        if hopeless or left < _FIRST_PAUSE:
            raise failed
        return self._producers.submit_many(
            self._batch, self._limits, seconds=left, doubt=not failed.undone
        )
