"""A flag that one thread sets and another waits for with ``select``."""

from __future__ import annotations

import contextlib
import os

__all__ = ["Wakeup"]


class Wakeup:
    """Set from any thread, or from any greenlet; costs one system call until it is cleared.

    A plain descriptor rather than a ``threading.Event``: the event loop, ``select`` beside a
    socket and a native thread under gevent can all wait for it. ``readv`` and ``writev``, because
    eventlet's ``read`` waits where there is nothing to read.
    """

    def __init__(self) -> None:
        if hasattr(os, "eventfd"):
            self._read = self._write = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        else:
            self._read, self._write = os.pipe()
            os.set_blocking(self._read, False)
            os.set_blocking(self._write, False)
        self._set = False
        self._closed = False

    def fileno(self) -> int:
        """The descriptor that is readable while the flag is set."""
        return self._read

    def set(self) -> None:
        """Make the descriptor readable. Never raises."""
        if self._set or self._closed:
            return
        self._set = True
        with contextlib.suppress(OSError):
            os.writev(self._write, [b"\1\0\0\0\0\0\0\0"])

    def clear(self) -> None:
        """Forget what was set; call it before looking at the work, not after."""
        # Drained first: a flag cleared first could be set again and that write drained here.
        with contextlib.suppress(OSError):
            os.readv(self._read, [bytearray(4096)])
        self._set = False

    def close(self) -> None:
        """Close the descriptor; ``set`` and ``clear`` do nothing afterwards."""
        if self._closed:
            return
        self._closed = True
        for descriptor in {self._read, self._write}:
            os.close(descriptor)
