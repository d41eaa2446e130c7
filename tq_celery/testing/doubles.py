"""What stands in for servers while calls are recorded: a store, a producer and a result backend.

Everything before them is the application's and ours: options are resolved and checked, messages
built and serialised, signals sent, limits applied.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from celery.backends.base import KeyValueStoreBackend
from kombu import serialization

from tq_celery.errors import TQError
from tq_celery.store.contract import Limits, Receipt, Submission
from tq_celery.store.memory_store import MemoryStore

__all__ = ["BrokerProducer", "NoEvents", "NotRunError", "RecordingStore", "ResultBackend"]


class NotRunError(TQError):
    """A result was asked for of a task that was recorded and has not run."""

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        super().__init__(
            f"task {task_id} was recorded, not run: ask the recorder what was submitted, or run it "
            "with tq_worker or task_always_eager"
        )


class RecordingStore:
    """A producer's store that keeps submissions and tells ``taken`` of each; safe among threads.

    Limits, payload sizes and repeated ids are refused as a server would refuse them. Nothing is
    ever taken out, so every submission counts as waiting.
    """

    def __init__(self, taken: Callable[[Submission], None]) -> None:
        self._taken = taken
        self._memory = MemoryStore()
        self._lock = threading.Lock()

    def submit(self, submission: Submission, limits: Limits) -> Receipt:
        """Take one; raises what a server's refusal raises."""
        receipt = self.submit_many([submission], limits)[0]
        if isinstance(receipt, Exception):
            raise receipt
        return receipt

    def submit_many(
        self, submissions: Sequence[Submission], limits: Limits
    ) -> list[Receipt | Exception]:
        """Take each by itself; a refusal stands in its receipt's place."""
        # the delivery that a retry replaces is not in this store
        alone = [submission._replace(parent=None) for submission in submissions]
        with self._lock:
            self._memory.now = int(time.time() * 1000)
            receipts = self._memory.submit_many(alone, limits)
        for submission, receipt in zip(submissions, receipts, strict=True):
            if isinstance(receipt, Receipt) and receipt.status == "accepted":
                self._taken(submission)
        return receipts


class BrokerProducer:
    """Stands in for a kombu producer: ``taken`` gets what would be published to the broker."""

    serializer = None
    channel = None

    def __init__(self, taken: Callable[..., None]) -> None:
        self._taken = taken

    def __enter__(self) -> BrokerProducer:
        """Be what ``app.producer_or_acquire(producer)`` hands out."""
        return self

    def __exit__(self, *exc_info: object) -> None: ...

    @property
    def connection(self) -> BrokerProducer:
        """Celery enters ``producer.connection._reraise_as_library_errors()``."""
        return self

    def _reraise_as_library_errors(self) -> Any:
        return nullcontext()

    def publish(self, body: Any, serializer: str | None = None, **options: Any) -> None:
        """Serialise the body, as a publish would, and tell what was published."""
        content = serialization.dumps(body, serializer=serializer)
        self._taken(content, **options)


class NoEvents:
    """Stands in for the dispatcher of ``task-sent`` events."""

    def publish(self, kind: str, fields: Any, producer: object, **options: Any) -> None:
        """Send nothing."""


class ResultBackend(KeyValueStoreBackend):
    """Results in a dict: a group can be saved and a state asked for, but nothing ever runs."""

    supports_native_join = False
    supports_autoexpire = True
    #: One for all threads: each looks for what the others have submitted.
    thread_safe = True

    def __init__(self, app: Any) -> None:
        super().__init__(app)
        self._kept: dict[Any, Any] = {}

    def get(self, key: Any) -> Any:
        return self._kept.get(key)

    def mget(self, keys: Any) -> Any:
        return [self._kept.get(key) for key in keys]

    def set(self, key: Any, value: Any) -> None:
        self._kept[key] = value

    def delete(self, key: Any) -> None:
        self._kept.pop(key, None)

    def apply_chord(self, *args: Any, **options: Any) -> None:
        """Leave the chord alone: its body travels in the messages of its header."""

    def wait_for_pending(self, result: Any, *args: Any, **options: Any) -> Any:
        """Raise NotRunError instead of waiting for ever."""
        meta = self.get_task_meta(result.id)
        if meta["status"] in ("SUCCESS", "FAILURE"):
            wait: Any = super().wait_for_pending
            return wait(result, *args, **options)
        raise NotRunError(result.id)
