"""Tasks that fail and are tried again; part of the application that worker tests run."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

#: Seconds until the next try. Celery writes the state RETRY after it has sent that try, over the
#: state of one that has ended by then: at once would be too soon on a busy machine.
RETRY_AFTER = 0.2


def declare(tq: Any, note: Callable[..., None]) -> None:
    """Declare them on the application of ``tq``; each start is noted with ``note``."""

    def start(task: Any, **fields: Any) -> int:
        note("start", task.request.id, task=task.name, retries=task.request.retries, **fields)
        return int(task.request.retries)

    @tq.task(shared=False, name="attempt", bind=True, tenant="who", max_retries=None)
    def attempt(self: Any, who: str, fails: int, options: Any = None) -> int:
        """Fail so many times, each time retrying with ``options``."""
        request = self.request
        done = start(
            self, eta=request.eta, priority=request.delivery_info["priority"],
            limits=request.timelimit, expires=request.expires, stamps=request.stamps,
            mine=(request.headers or {}).get("mine"), tq=(request.headers or {}).get("tq"),
        )  # fmt: skip
        if done < fails:
            raise self.retry(**{"countdown": RETRY_AFTER, **(options or {})})
        return done

    @tq.task(
        shared=False, name="stumble", bind=True, autoretry_for=(KeyError,), max_retries=3,
        retry_backoff="decorrelated", retry_backoff_base=0.05, retry_backoff_max=0.3,
        dont_autoretry_for=(ZeroDivisionError,), retry_kwargs={"priority": 4},
    )  # fmt: skip
    def stumble(self: Any, fails: int, error: str = "KeyError") -> int:
        done = start(self, slept=(self.request.headers or {}).get("tq_backoff"))
        if done < fails:
            raise {"KeyError": KeyError, "ZeroDivisionError": ZeroDivisionError}[error]("as asked")
        return done

    @tq.task(shared=False, name="tracked", bind=True, track_started=True, max_retries=1)
    def tracked(self: Any) -> None:
        start(self, state=self.AsyncResult(self.request.id).state)
        raise self.retry(countdown=1.5, exc=KeyError("as asked"))

    @tq.task(shared=False, name="stay", bind=True, max_retries=5)
    def stay(self: Any, fails: int) -> str:
        """Retry without an exception: the task goes on and returns."""
        if start(self) < fails:
            self.retry(countdown=RETRY_AFTER, throw=False)
        return f"try {self.request.retries}"

    @tq.task(shared=False, name="early_again", bind=True, acks_late=False, max_retries=5)
    def early_again(self: Any, fails: int, options: Any = None) -> int:
        if start(self) < fails:
            raise self.retry(**{"countdown": RETRY_AFTER, **(options or {})})
        return int(self.request.retries)

    @tq.task(shared=False, name="late_again", bind=True, max_retries=5)
    def late_again(self: Any, sleep: float, options: Any = None, grow: int = 0) -> int:
        """Retry once, after ``sleep`` seconds in which a test can take the way away.

        With ``grow`` the arguments of the next try have that many bytes.
        """
        done = start(self)
        if not done:
            time.sleep(sleep)
            changed = {"args": (0, "x" * grow)} if grow else {}
            raise self.retry(**{"countdown": RETRY_AFTER, **changed, **(options or {})})
        return done

    @tq.task(
        shared=False, name="lost_again", bind=True, tenant="who", max_retries=2,
        retry_on_worker_lost=True, default_retry_delay=0.1,
    )  # fmt: skip
    def lost_again(self: Any, who: str) -> None:
        start(self)
        os.kill(os.getpid(), signal.SIGKILL)
