"""The worker's end of the renewer process: started once, told of every renewal."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tq_celery.worker import renewer

__all__ = ["StandIn"]


class StandIn:
    """A running :mod:`~tq_celery.worker.renewer`. Only descriptors are kept: any thread may use it.

    Start it from the main thread; under gevent that thread's loop watches the child.
    """

    def __init__(self, url: str, prefix: str, worker: str, lease: float) -> None:
        process: Any = subprocess.Popen(
            [sys.executable, "-P", str(Path(renewer.__file__).resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
        self._process = process
        #: Set by :meth:`last` when the process has ended, which it does not by itself.
        self.gone = False
        self._in = os.dup(process.stdin.fileno())
        self._out = os.dup(process.stdout.fileno())
        process.stdin.close()
        process.stdout.close()
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        order = {
            "url": url,
            "prefix": prefix,
            "worker": worker,
            "lease": lease,
            "parent": os.getpid(),
        }
        os.write(self._in, json.dumps(order).encode() + b"\n")

    def note(self) -> None:
        """Tell it that the worker has renewed by itself. Never raises."""
        with contextlib.suppress(OSError):
            os.writev(self._in, [renewer.RENEWED])  # not write: eventlet's waits for room

    def last(self) -> float:
        """Return when it last renewed, monotonic seconds, and forget it; 0 for not since."""
        buffer = bytearray(65536)
        try:
            text = bytes(buffer[: os.readv(self._out, [buffer])])
        except OSError:
            return 0.0
        if not text:
            self.gone = True
        lines = text.split()
        return int(lines[-1]) / 1000 if lines else 0.0

    def reap(self) -> None:
        """Let the system forget a process that has ended."""
        with contextlib.suppress(Exception):
            self._process.poll()

    def stop(self) -> None:
        """End it."""
        with contextlib.suppress(OSError):
            os.write(self._in, renewer.STOP)
        for descriptor in (self._in, self._out):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        with contextlib.suppress(Exception):
            try:
                self._process.wait(timeout=0.5)
            except subprocess.TimeoutExpired:  # a machine too busy: it has nothing to finish
                self._process.kill()
                self._process.wait(timeout=0.5)
