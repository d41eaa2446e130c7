"""Keys that are pressed while a command draws on the terminal."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["keyboard"]


@contextmanager
def keyboard() -> Iterator[Callable[[float], str]]:
    """Yield a call that waits so many seconds for a key, and returns what was typed or ``""``.

    What is typed does not appear on the screen meanwhile. Without a terminal to read from it only
    waits.
    """
    if not sys.stdin.isatty():
        yield _sleep
        return
    source = sys.stdin.fileno()
    before = termios.tcgetattr(source)

    def wait(seconds: float) -> str:
        if not select.select([source], [], [], seconds)[0]:
            return ""
        typed = os.read(source, 64).decode(errors="replace")
        return typed or _sleep(seconds)  # the terminal was closed

    tty.setcbreak(source)
    try:
        yield wait
    finally:
        termios.tcsetattr(source, termios.TCSADRAIN, before)


def _sleep(seconds: float) -> str:
    time.sleep(seconds)
    return ""
