"""What a worker does for scheduled tasks while Celery waits for a broker that is away.

Celery's main thread then sleeps between two attempts, up to 30 s, and with it the event loop. The
scheduled tasks need no broker: their results are taken out of the prefork pool's pipes, and threads
and solo pools are handed what has arrived. The prefork pool starts nothing new meanwhile, because
only the event loop writes to its processes. A green pool goes on by itself.
"""

from __future__ import annotations

import os
import pickle
import select
import struct
from collections.abc import Callable
from typing import Any

from tq_celery.logs import Log

__all__ = ["take_results", "tend_while_reconnecting"]

log = Log("tq_celery.worker")

#: What stands before each message of a process: its length in bytes.
_SIZE = struct.Struct("!i")
#: Milliseconds between two looks whether a process that is in the middle of a message is there.
PATIENCE = 100


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
                    log.exception("tending scheduled tasks without a broker failed")
                if callback is not None:
                    callback()

            return ensure(*args, callback=each_second, **options)

        connection.ensure_connection = ensure_connection
        return theirs(connection)

    consumer.ensure_connected = ensure_connected


def take_results(pool: Any) -> None:
    """Read what the processes of an AsynPool have sent, each message to its end.

    The pool's own way, meant for processes that are gone, takes a result of more than 16 KiB for
    none where its second half is still to come, and finds no beginning of a message from then on.
    """
    for process in tuple(pool._pool):
        reader = process.outq._reader
        while not reader.closed and _readable(reader.fileno(), 0):
            message = _receive(reader.fileno(), process)
            if message is None:
                break
            pool._result_handler.on_state_change(message)


def _receive(fd: int, process: Any) -> Any:
    """Return the next message; None when the process is gone before its end."""
    header = _read(fd, _SIZE.size, process)
    body = header and _read(fd, _SIZE.unpack(header)[0], process)
    return pickle.loads(body) if body else None  # noqa: S301 - of our own child process


def _read(fd: int, size: int, process: Any) -> bytes | None:
    found = bytearray()
    while len(found) < size:
        if _readable(fd, PATIENCE):
            part = os.read(fd, size - len(found))
            if not part:
                return None
            found += part
        elif not process._is_alive():
            return None
    return bytes(found)


def _readable(fd: int, ms: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(ms))
