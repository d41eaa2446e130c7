"""One cell from the order to send until its end is known."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from bench.harness import books
from bench.harness.arms import Arm, TQArm
from bench.harness.events import Account, Tail
from bench.harness.fleet import Cpu, Fleet
from bench.harness.process import Process
from bench.harness.record import Ending
from bench.harness.report import progress
from tq_celery.store.keys import Keys

__all__ = ["Course", "Watch", "stopped"]

#: Seconds between two looks at what the processes wrote: often enough for a CPU account that ends
#: with the last completion, seldom enough not to take part in the run.
LOOK = 0.1
#: Seconds from the order to the first planned arrival.
AHEAD = 0.2
#: Seconds that the last settlements may take after the last body has ended.
SETTLING = 10.0

#: Looks in a row at which an arm must hold nothing before what is missing counts as lost.
EMPTY_LOOKS = 5

#: Called a few times a second with a word for what goes on, tasks finished, and all tasks.
Watch = Callable[[str, int, int], None]


def stopped(seconds: float) -> str:
    """Return the reason of a course that was stopped after ``seconds`` because it was asked to."""
    return f"stopped after {seconds:g} s as asked"


class Course:
    """Follows a warm fleet through its plan; afterwards the fields say how it went.

    ``limit`` is the second, counted from the first planned arrival, at which it is timed out.
    """

    def __init__(
        self, arm: Arm, fleet: Fleet, account: Account, tail: Tail, watch: Watch, limit: float
    ) -> None:
        self._arm, self._fleet, self._account = arm, fleet, account
        self._tail, self._watch, self._limit = tail, watch, limit
        self.ending: Ending = "complete"
        self.reason = ""
        self.used = Cpu()
        self.dead_letters: list[dict[str, object]] = []
        self._empty = 0

    def run(self, stop_after: float | None = None) -> None:
        """Send the plan and wait for its end, or for ``stop_after`` seconds."""
        account, total = self._account, len(self._account.plan)
        before = self._fleet.cpu()
        self._begin()
        while not self._over(stop_after):
            self._watch("run", len(account.completed), total)
            time.sleep(LOOK)
        self.used = self._fleet.cpu().since(before)
        if self.ending == "complete":
            self._settle()
        elif stop_after is not None:
            self._stop_early()
        self.dead_letters = self._arm.dead_letters()
        self._watch("end", len(account.completed), total)

    def _begin(self) -> None:
        """Order the plan to be sent, and say when its second 0 is."""
        self._account.start = time.monotonic() + AHEAD
        self._fleet.producer.tell(f"go {self._account.start!r}")

    @property
    def dead(self) -> set[int]:
        """Jobs among the dead letters."""
        return {
            job for job in map(_job, self.dead_letters)
            if job is not None
        }  # fmt: skip

    def _over(self, stop_after: float | None) -> bool:
        # Asked first: what a process wrote before its end is then read below.
        ended = self._fleet.dead()
        self._read()
        account, now = self._account, time.monotonic() - self._account.start
        missing = len(account.plan) - len(account.completed)
        if missing == 0 and account.all_sent:
            # A task that takes no time may be done before the producer has noted that it was sent.
            return True
        if ended is not None:
            self._died(ended)
        elif stop_after is not None and now >= stop_after:
            self.ending, self.reason = "truncated", stopped(stop_after)
        elif now >= self._limit:
            self.ending = "timed-out"
            self.reason = f"{missing} of {len(account.plan)} tasks were not done by {now:.0f} s"
        else:
            return account.all_sent and self._nothing_left()
        return True

    def _read(self) -> None:
        for event in self._tail.read():
            self._account.apply(event)

    def _died(self, process: Process) -> None:
        """Note a process that ended by itself; its last words go to the person who waits."""
        early = process is self._fleet.producer
        self.ending = "truncated" if early else "failed"
        self.reason = f"{process.name} ended with exit code {process.code}: {process.tail(1)}"
        progress(f"--- last words of {process.name}\n{process.tail()}\n---")

    def _nothing_left(self) -> bool:
        """Whether the arm holds no work any more although bodies are missing: dead or lost."""
        # Several looks: brokers move a task from one place to another in two steps.
        self._empty = self._empty + 1 if self._arm.unsettled() == 0 else 0
        if self._empty < EMPTY_LOOKS:
            return False
        self._read()
        self.dead_letters = self._arm.dead_letters()
        return True

    def _settle(self) -> None:
        """Wait until the arm holds nothing, and compare its books with what was seen."""
        account = self._account
        end = time.monotonic() + SETTLING
        while self._arm.unsettled():
            if time.monotonic() > end:
                self.ending = "failed"
                self.reason = f"{self._arm.unsettled()} tasks ran and were not settled"
                return
            time.sleep(LOOK)
        # What ran once more while the last ones were settled belongs to the executions, too.
        self._read()
        wrong: list[str] = []
        if isinstance(self._arm, TQArm):
            counted = books.counters(self._arm.server.client, Keys(self._arm.namespace))
            seen = {"completed": len(account.completed) + account.warm, "dead": len(self.dead)}
            wrong += [
                f"{count} {word} and {counted[word]} settled so"
                for word, count in seen.items() if counted[word] != count
            ]  # fmt: skip
        lost = len(account.plan) - len(account.completed.keys() | self.dead)
        if lost:
            wrong.append(f"{lost} lost")
        if wrong:
            self.ending, self.reason = "failed", "the books do not balance: " + ", ".join(wrong)

    def _stop_early(self) -> None:
        """End the producer and stop the workers warmly, then read what still ended."""
        fleet = self._fleet
        for process in (fleet.producer, *fleet.workers):
            process.ask_to_stop()
        for process in (fleet.producer, *fleet.workers):
            process.stop()
        self._read()


def _job(letter: dict[str, object]) -> int | None:
    """Return the job of a dead letter, None where it tells none."""
    # The key is nesting.retries.generation.id, the id that of :func:`bench.harness.sender.task_id`.
    found = re.fullmatch(r".*\bjob-(\d+)", str(letter.get("key", "")))
    return int(found[1]) if found else None
