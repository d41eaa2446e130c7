"""Tasks that are stopped, or end in their own way; part of the application of worker tests."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

from celery import signals
from celery.exceptions import SoftTimeLimitExceeded, WorkerShutdown


def declare(
    tq: Any, note: Callable[..., None], noted: Callable[[str], int], hold: Callable[[str], None]
) -> None:
    """Declare them on the application of ``tq``; starts, revocations and failures are noted."""

    @tq.task(shared=False, name="soft", bind=True, soft_time_limit=0.5, time_limit=20)
    def soft(self: Any, caught: bool = True) -> str:
        note("start", self.request.id)
        try:
            time.sleep(10)
        except SoftTimeLimitExceeded:
            if not caught:
                raise
            return "caught"
        return "missed"

    @tq.task(shared=False, name="hard", bind=True, time_limit=1)
    def hard(self: Any, seconds: float = 10.0) -> None:
        note("start", self.request.id, pid=os.getpid())
        time.sleep(seconds)

    @tq.task(shared=False, name="hard_again", bind=True, time_limit=1, acks_on_timeout=False)
    def hard_again(self: Any, times: int) -> str:
        """Run into the limit so many times; each of them is another delivery."""
        note("start", self.request.id, redelivered=self.request.delivery_info["redelivered"])
        if noted(self.request.id) <= times:
            time.sleep(10)
        return "in time"

    @tq.task(shared=False, name="hold_then_retry", bind=True)
    def hold_then_retry(self: Any, word: str) -> None:
        note("start", self.request.id)
        hold(word)
        raise self.retry(countdown=0)

    @tq.task(shared=False, name="revoker")
    def revoker(task_id: str) -> None:
        tq.app.control.revoke(task_id)

    @tq.task(shared=False, name="unacked", acks_on_failure=False)
    def unacked() -> None:
        raise ValueError("as asked")

    @tq.task(shared=False, name="lost_for_good", bind=True, reject_on_worker_lost=False)
    def lost_for_good(self: Any) -> None:
        note("start", self.request.id)
        os.kill(os.getpid(), signal.SIGKILL)

    @tq.task(shared=False, name="early_fail", acks_late=False)
    def early_fail() -> None:
        raise ValueError("as asked")

    @tq.task(shared=False, name="raises", bind=True)
    def raises(self: Any, what: str) -> None:
        note("start", self.request.id)
        kinds: dict[str, type[BaseException]] = {
            "SystemExit": SystemExit, "KeyboardInterrupt": KeyboardInterrupt,
            "WorkerShutdown": WorkerShutdown, "MemoryError": MemoryError,
        }  # fmt: skip
        raise kinds[what](0)

    def on_revoked(sender: Any, request: Any, terminated: Any, expired: Any, **_: Any) -> None:
        note("revoked", request.id, terminated=terminated, expired=expired, task=sender.name)

    def on_failure(sender: Any, task_id: str, exception: Any, **_: Any) -> None:
        note("failed", task_id, error=repr(exception), task=sender.name)

    def on_unknown(sender: Any, id: str, name: str, **_: Any) -> None:
        note("unknown", id, task=name)

    # weak=False: nothing else refers to these
    signals.task_revoked.connect(on_revoked, weak=False, dispatch_uid="stopping-tasks")
    signals.task_failure.connect(on_failure, weak=False, dispatch_uid="stopping-tasks")
    signals.task_unknown.connect(on_unknown, weak=False, dispatch_uid="stopping-tasks")
