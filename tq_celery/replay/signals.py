"""Ctrl-C, SIGTERM and a closed terminal end a run in order: everything started is stopped."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

__all__ = ["Ended", "ended_by_signals"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ended(BaseException):
    """A signal asked the program to end; not an error, so nothing catches it by accident."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(signal.Signals(number).name)

    @property
    def exit_code(self) -> int:
        """Return what a shell reports for a program ended by this signal."""
        return 128 + self.number


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Raise :class:`Ended` in the body on the first signal; further ones wait for the clean-up."""

    def end(number: int, frame: FrameType | None) -> None:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise Ended(number)

    # Under nohup the terminal may close: who asked for that to be ignored is obeyed.
    hung_up = signal.getsignal(signal.SIGHUP)
    mine = [each for each in _SIGNALS if each != signal.SIGHUP or hung_up != signal.SIG_IGN]
    before = {each: signal.signal(each, end) for each in mine}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
