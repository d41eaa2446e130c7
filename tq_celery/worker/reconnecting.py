"""What a worker does for scheduled tasks while Celery waits for a broker that is away.

Celery's main thread then sleeps between two attempts, up to 30 s, and with it the event loop. The
scheduled tasks need no broker: their results are taken out of the prefork pool's pipes, and threads
and solo pools are handed what has arrived. The prefork pool starts nothing new meanwhile, because
only the event loop writes to its processes. A green pool goes on by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

__all__ = ["take_results", "tend_while_reconnecting"]

logger = logging.getLogger("tq_celery.worker")


def tend_while_reconnecting(consumer: Any, tend: Callable[[], None]) -> None:
    """Call ``tend`` every second in which ``consumer`` waits for its next attempt to connect."""
    theirs = consumer.ensure_connected

    def ensure_connected(connection: Any) -> Any:
        ensure = connection.ensure_connection

        def ensure_connection(*args: Any, **options: Any) -> Any:
            callback = options.pop("callback", None)

            def each_second() -> None:
                try:
                    tend()
                except Exception:
                    logger.exception("Tending scheduled tasks without a broker failed")
                if callback is not None:
                    callback()

            return ensure(*args, callback=each_second, **options)

        connection.ensure_connection = ensure_connection
        return theirs(connection)

    consumer.ensure_connected = ensure_connected


def take_results(pool: Any) -> None:
    """Read what the processes of an AsynPool have sent, as Celery does when it lost the broker."""
    for process in tuple(pool._pool):
        pool.process_flush_queues(process)
