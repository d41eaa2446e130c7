"""A scheduler and a worker in this process, for as long as a test or a test session lasts."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from celery.contrib.testing.worker import start_worker
from kombu.asynchronous import get_event_loop, set_event_loop

from tq_celery.errors import StoreError, TQError
from tq_celery.scheduler.service import Scheduler
from tq_celery.settings import Settings
from tq_celery.store.client import connect
from tq_celery.store.inspect import Inspector
from tq_celery.store.keys import Keys
from tq_celery.store.views import QueueView
from tq_celery.store.wipe import wipe
from tq_celery.testing.recorder import tq_of
from tq_celery.testing.swap import pointed_at

__all__ = ["Running", "start", "start_scheduler"]

#: Results in memory, found as soon as they are there.
MEMORY_RESULTS = "tq_celery.testing.results.MemoryResults"
#: Seconds between two looks at the namespace.
LOOK_EVERY = 0.01


@dataclass
class Running:
    """A running scheduler of an application, perhaps with a worker, in its own namespace."""

    app: Any
    settings: Settings
    scheduler: Scheduler
    #: Celery's ``WorkController``; ``None`` without a worker of ours, and when it has stopped.
    worker: Any = None

    @property
    def namespace(self) -> str:
        """The namespace; nothing else uses it."""
        return self.settings.namespace

    def queues(self) -> list[QueueView]:
        """Return what each queue holds and how its tasks ended, as ``tq status`` shows it."""
        with _inspector(self.settings) as inspector:
            return inspector.queues()

    def wait_idle(self, timeout: float = 10.0, *, delayed: bool = False) -> None:
        """Wait until every task has ended, but for delayed ones unless ``delayed`` is given.

        TQError after ``timeout`` seconds says what there still is.
        """
        give_up = time.monotonic() + timeout
        with _inspector(self.settings) as inspector:
            while True:
                left = {
                    view.queue: view.live - (0 if delayed else view.delayed)
                    for view in inspector.queues()
                }
                busy = {queue: count for queue, count in left.items() if count}
                if not busy:
                    return
                if time.monotonic() > give_up:
                    raise TQError(f"tasks are left after {timeout:g} s: {busy}")
                time.sleep(LOOK_EVERY)

    def purge(self) -> int:
        """Remove every task that has not started, scheduled or not; returns how many those were.

        Removed tasks are revoked. What runs goes on.
        """
        return int(self.app.control.purge() or 0)


@contextmanager
def start_scheduler(
    app: Any,
    url: str,
    *,
    namespace: str | None = None,
    broker: str | None = "memory://",
    backend: str | None = MEMORY_RESULTS,
    **settings: Any,
) -> Iterator[Running]:
    """Run a scheduler for ``app`` in threads of this process; a worker is yours to start.

    ``url`` is the server of the namespace, which is a new one unless ``namespace`` names it and
    whose keys are removed at the end. Broker and result backend are in memory unless given;
    ``None`` leaves what the application has. ``settings`` are ``tq_*`` settings without the prefix.
    At the end the application is as before. Raises TQError when it has no TQ, SettingsError, and
    StoreUnavailableError when the server does not answer.
    """
    tq_of(app)
    wanted = {"url": url, "namespace": namespace or f"test-{uuid.uuid4().hex[:12]}", **settings}
    with pointed_at(app, wanted, broker, backend) as found:
        with _inspector(found) as inspector:
            inspector.now()  # a server that is away is an error here and not a wait later
        scheduler = Scheduler(found)
        scheduler.start()
        try:
            yield Running(app, found, scheduler)
        finally:
            scheduler.stop()
            scheduler.join()
            _wipe(found)


@contextmanager
def start(
    app: Any,
    url: str,
    *,
    pool: str = "solo",
    concurrency: int = 1,
    worker: Mapping[str, Any] | None = None,
    **options: Any,
) -> Iterator[Running]:
    """Run a scheduler and Celery's own worker for ``app`` in threads of this process.

    ``options`` are those of :func:`start_scheduler`, ``worker`` further ones of Celery's
    ``start_worker``. At the end no thread, socket or process is left. Raises what
    :func:`start_scheduler` raises, and TQError when another such worker runs in this process.
    """
    if not _one_worker.acquire(blocking=False):
        raise TQError(
            "a worker runs in this process already; Celery's workers share their state. Use either "
            "tq_worker or tq_session_worker in one run of pytest"
        )
    loop = get_event_loop()
    try:
        with start_scheduler(app, url, **options) as running:
            with start_worker(
                app, pool=pool, concurrency=concurrency, perform_ping_check=False, **(worker or {})
            ) as controller:
                running.worker = controller
                try:
                    yield running
                finally:
                    # beside the worker's stop, whose last words to the store wake its reader
                    threading.Thread(target=running.scheduler.stop, daemon=True).start()
            running.worker = None
            set_event_loop(loop)
            threads = getattr(controller.pool, "executor", None)
            if threads is not None:
                threads.shutdown(wait=True)  # Celery leaves its idle threads behind
    finally:
        _one_worker.release()


_one_worker = threading.Lock()


@contextmanager
def _inspector(settings: Settings) -> Iterator[Inspector]:
    client = connect(settings.url, timeout=settings.publish_timeout)
    try:
        yield Inspector(client, Keys(settings.namespace))
    finally:
        client.close()


def _wipe(settings: Settings) -> None:
    """Remove the namespace; a server that is gone has none."""
    client = connect(settings.url, timeout=settings.publish_timeout)
    try:
        wipe(client, Keys(settings.namespace))
    except StoreError:
        pass
    finally:
        client.close()
