"""A process that renews the worker's lease when the worker's own thread cannot.

A task that holds the interpreter's lock for longer than the lease (C code in a thread, in the solo
pool or in a greenlet) stops every thread of its process, the renewing one too. The process is
alive, so its lease must live. This program sits beside such a worker and waits on a pipe:

* a newline says that the worker has just renewed, and nothing is to be done;
* silence for half a lease, while the worker's process exists and is not stopped, and the renewer
  renews in its place, with the announcement the store already has;
* a ``q``, the end of the pipe, or another parent means that the worker is gone.

A stopped worker (``SIGSTOP``, a debugger) must lapse, so its state is looked up each time; and a
lease that is over is never taken up again here, for the worker itself must notice that it lapsed.

Run as a file: it then loads ``tq_celery.store`` without the package's Celery side.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic
from types import ModuleType
from typing import Any

__all__ = ["RENEWED", "STOP", "main", "running"]

#: What the worker writes: it has renewed; it is stopping.
RENEWED, STOP = b"\n", b"q"

#: Fraction of the lease that the worker may be silent before the renewer steps in.
PATIENCE = 0.5


def running(pid: int) -> bool:
    """Whether process ``pid`` exists and is neither stopped nor a zombie."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
        word = status.rpartition(")")[2].split()[0]
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return False
        found = subprocess.run(
            ["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
        word = found.stdout.strip()
    except (OSError, IndexError):
        return False
    return bool(word) and word[0] not in "TtZX"


class Renewer:
    """One worker's stand-in; ``call`` renews once and returns the store's status word."""

    def __init__(self, call: Any, lease: float, parent: int) -> None:
        self._call = call
        self._lease = lease
        self._parent = parent
        self._until = 0.0

    def noted(self) -> None:
        """The worker has renewed."""
        self._until = monotonic() + self._lease

    def step_in(self) -> bool:
        """Renew if the worker lives and its lease does; returns whether that was done."""
        started = monotonic()
        if started >= self._until or not running(self._parent):
            return False
        try:
            self._call()
        except Exception:  # noqa: BLE001 - the server is away: the next turn tries again
            return False
        self._until = started + self._lease
        return True


def serve(renewer: Renewer, lease: float, parent: int) -> None:
    """Wait for lines on standard input until it ends."""
    descriptor = sys.stdin.fileno()
    wait = lease * PATIENCE
    while os.getppid() == parent:
        ready, _, _ = select.select([descriptor], [], [], wait)
        if ready:
            words = os.read(descriptor, 65536)
            if not words or STOP in words:
                return
            renewer.noted()
            wait = lease * PATIENCE
        else:
            if renewer.step_in():
                os.write(1, b"%d\n" % int(monotonic() * 1000))
            wait = lease / 6


def main() -> None:
    """Read the order from standard input: one JSON line with what to renew."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return
        line += byte
    order = json.loads(line)
    from tq_celery.store.client import connect
    from tq_celery.store.scripts import SCRIPTS, call

    lease = float(order["lease"])
    client = connect(order["url"], timeout=min(5.0, max(0.2, lease / 4)))
    script = SCRIPTS["renew"]
    arguments = (order["worker"], int(lease * 1000), "")
    renewer = Renewer(
        lambda: call(client, script, order["prefix"], arguments), lease, order["parent"]
    )
    renewer.noted()
    serve(renewer, lease, order["parent"])


if __name__ == "__main__":
    root = str(Path(__file__).resolve().parent.parent)
    package = ModuleType("tq_celery")
    package.__path__ = [root]
    sys.modules["tq_celery"] = package
    main()
