"""The first Ctrl-C or SIGTERM lets what is under way finish; the second ends the program."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Halt", "halted_by_signals"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Halt(threading.Event):
    """Set by a signal; ``number`` is which, 0 while there was none."""

    number = 0

    @property
    def word(self) -> str:
        """The signal's name, empty without one."""
        return signal.Signals(self.number).name if self.number else ""

    @property
    def exit_code(self) -> int:
        """What a shell reports for a program ended by the signal; 0 without one."""
        return 128 + self.number if self.number else 0


@contextmanager
def halted_by_signals() -> Iterator[Halt]:
    """Yield a :class:`Halt`; the handlers that were there come back with the first signal."""
    halt = Halt()

    def end(number: int, frame: FrameType | None) -> None:
        restore()
        halt.number = number
        halt.set()

    before = {each: signal.signal(each, end) for each in _SIGNALS}

    def restore() -> None:
        for each, handler in before.items():
            signal.signal(each, handler)

    try:
        yield halt
    finally:
        restore()
