"""Real threads and descriptors where gevent or eventlet replaced them.

The I/O thread must be one of the operating system: a task that never yields its greenlet would
hold up a green one, and with it the lease. What runs in the worker's own thread must be green.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Thread
from typing import Any

from kombu.utils.compat import detect_environment

__all__ = ["keep_yielding", "spawn", "start_native", "wait_readable"]


def keep_yielding() -> None:
    """Let other greenlets run while kombu waits for its next attempt to connect.

    Under gevent some of kombu's modules are loaded before ``time.sleep`` is replaced, and keep the
    real one: it then stops the whole process for as long as a broker is away.
    """
    if detect_environment() == "gevent":
        from gevent.monkey import get_original
        from kombu.utils import functional

        if functional.sleep is get_original("time", "sleep"):
            functional.sleep = time.sleep


def start_native(run: Callable[[], None]) -> None:
    """Run ``run`` in a daemon thread of the operating system."""
    kind = detect_environment()
    if kind == "gevent":
        from gevent.monkey import get_original

        get_original("_thread", "start_new_thread")(run, ())
    elif kind == "eventlet":
        from eventlet.patcher import original

        original("threading").Thread(target=run, name="tq-io", daemon=True).start()
    else:
        Thread(target=run, name="tq-io", daemon=True).start()


def spawn(run: Callable[[], None]) -> Callable[[], None]:
    """Run ``run`` in a greenlet of this thread; returns what ends it."""
    if detect_environment() == "eventlet":
        import eventlet

        thread: Any = eventlet.spawn(run)
        return lambda: thread.kill()
    import gevent

    greenlet = gevent.spawn(run)
    return lambda: greenlet.kill(block=False)


def wait_readable(descriptor: int) -> None:
    """Let other greenlets run until ``descriptor`` can be read."""
    if detect_environment() == "eventlet":
        from eventlet.hubs import trampoline

        trampoline(descriptor, read=True)
    else:
        from gevent.socket import wait_read

        wait_read(descriptor)
