"""Whose a run is, and how far it is: so that none is submitted twice, or half without a word.

A run is known by its name, ``<prefix>-<seed>``, from which the ids of its tasks follow. The
namespace has an entry for each, which outlives the tasks. Before a producer submits anything it
reads the entry and says what it found:

- none, or one that nobody is at and of which no task was taken: the run is new.
- it is finished, or its tasks are other ones: refused.
- another producer is at it and has been heard of lately: refused.
- it was interrupted: it goes on where it was.

The entry says up to which task everything *was* submitted (``sent``) and up to which it *may* have
been (``upto``); it is written ahead of the tasks. Who goes on submits those between the two again.
A namespace remembers the tasks it had (:attr:`~tq_celery.settings.Settings.done_memory`), so what
was there before is not run again; once that memory may be gone, a run with such tasks is refused.
"""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

from tq_celery.errors import ProduceError
from tq_celery.store.run_book import RunBook

__all__ = ["Claim", "Run", "take"]

#: Milliseconds after which a producer that was not heard of counts as gone.
SILENCE = 10_000

#: Seconds between two signs of life while nothing is to be submitted.
SIGN_EVERY = 2.0

_ADVICE = "choose another --seed or --prefix"


@dataclass(frozen=True, slots=True)
class Run:
    """An entry. ``owner`` is ``host/pid`` while a producer is at it; times are the store's ms.

    ``digest`` stands for the tasks, ``results`` is the last result before the first of them.
    """

    workload: str
    digest: str
    total: int
    sent: int = 0
    upto: int = 0
    owner: str = ""
    began: int = 0
    seen: int = 0
    results: str = "0"

    @property
    def finished(self) -> bool:
        """Whether every task is submitted."""
        return self.sent >= self.total

    def encode(self) -> bytes:
        """Return the entry's bytes."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, raw: bytes) -> Run:
        """Parse :meth:`encode`; ValueError on anything else."""
        try:
            return cls(**json.loads(raw))
        except (TypeError, ValueError) as error:
            raise ValueError(f"not an entry of a run: {raw[:80]!r}") from error


class Claim:
    """A run in this producer's hands, from :func:`take` until :meth:`release`."""

    def __init__(self, book: RunBook, name: str, entry: bytes, run: Run, now: int) -> None:
        self._book, self._entry = book, entry
        #: What the store's clock is ahead of this machine's monotonic one, in ms.
        self._ahead = now - int(time.monotonic() * 1000)
        self._signed = time.monotonic()
        self.name, self.run = name, run
        #: The number of the first task that this producer submits.
        self.start = run.sent

    def note(self, sent: int, upto: int) -> None:
        """Write how far the run is; ProduceError when somebody else did meanwhile."""
        now = self._ahead + int(time.monotonic() * 1000)
        self._write(replace(self.run, sent=sent, upto=max(upto, sent), seen=now))

    def sign(self, sent: int, upto: int) -> None:
        """Show now and then that this producer lives, while it waits for the next task's time."""
        if time.monotonic() - self._signed > SIGN_EVERY:
            self.note(sent, upto)

    def release(self, sent: int, upto: int) -> None:
        """Write how far the run is, and let it go; :attr:`run` says so even if that fails."""
        self.run = replace(self.run, owner="", sent=sent, upto=max(upto, sent))
        self.note(sent, upto)

    def _write(self, run: Run) -> None:
        entry = run.encode()
        if not self._book.note(self.name, self._entry, entry):
            raise ProduceError(
                f"another producer has taken over run {self.name} at task {self.run.sent} of "
                f"{run.total}; this one stops"
            )
        self.run, self._entry, self._signed = run, entry, time.monotonic()


def take(book: RunBook, name: str, wanted: Run, done_memory: float) -> Claim:
    """Take a run for this producer, or say why not: ProduceError, and nothing is changed.

    ``done_memory`` is in seconds. An interrupted run keeps its entry's progress.
    """
    raw, now = book.read(name)
    found = _read(name, raw)
    if found is not None and (found.upto or _at_it(found, now)):
        _check(name, found, wanted, now, done_memory)
    else:
        # New, or a run of which every task was refused, or that was killed before its first: the
        # ids are free.
        found = replace(wanted, began=now, results=book.last_result())
    mine = f"{socket.gethostname()}/{os.getpid()}"
    run = replace(found, owner=mine, seen=now)
    if not book.note(name, raw, run.encode()):
        raise ProduceError(f"another producer has just taken run {name}")
    return Claim(book, name, run.encode(), run, now)


def _read(name: str, raw: bytes) -> Run | None:
    try:
        return Run.decode(raw) if raw else None
    except ValueError as error:
        raise ProduceError(f"run {name} has an entry of another version; {_ADVICE}") from error


def _check(name: str, found: Run, wanted: Run, now: int, done_memory: float) -> None:
    if found.digest != wanted.digest:
        raise ProduceError(
            f"run {name} is taken: {found.total} tasks of {found.workload} with other options, "
            f"begun {_when(found.began)}, have its ids; {_ADVICE}"
        )
    if found.finished:
        raise ProduceError(
            f"run {name} was submitted before: all {found.total} tasks, the last "
            f"{_when(found.seen)}; {_ADVICE}"
        )
    if _at_it(found, now):
        raise ProduceError(
            f"another producer ({found.owner}) is submitting run {name}, at task {found.sent} of "
            f"{found.total}; if it was killed, try again in {SILENCE // 1000} s"
        )
    if found.upto > found.sent and now - found.seen > done_memory * 1000:
        raise ProduceError(
            f"run {name} was interrupted {_when(found.seen)} and cannot go on: up to "
            f"{found.upto - found.sent} tasks after the first {found.sent} may be submitted, "
            f"and the namespace's memory (done_memory {done_memory:g} s) may be gone; {_ADVICE}"
        )


def _at_it(found: Run, now: int) -> bool:
    """Tell whether another producer has the run in its hands."""
    return bool(found.owner) and now - found.seen < SILENCE and not _gone(found.owner)


def _gone(owner: str) -> bool:
    """Tell whether the owner was a process of this machine that is there no more."""
    host, _, pid = owner.rpartition("/")
    if host != socket.gethostname() or not pid.isdecimal():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    return False


def _when(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
