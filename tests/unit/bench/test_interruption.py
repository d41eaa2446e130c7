"""Whatever interrupts a run, and however often: what it has started is ended."""

from __future__ import annotations

import contextlib
import signal
from types import SimpleNamespace
from typing import Any

import pytest

from bench.__main__ import _signals
from bench.harness.fleet import Fleet


@pytest.fixture
def handlers():
    """What the process does on a signal, as it was before."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def interrupted(*args: object) -> None:
    raise KeyboardInterrupt


def test_a_second_interruption_leaves_no_process_behind():
    """Seen to fail: the processes were left when one arrived while they were asked to stop."""
    ended: list[str] = []
    fleet: Any = Fleet.__new__(Fleet)
    fleet._arm = SimpleNamespace(scheduled=True)
    fleet._stack = contextlib.ExitStack()
    fleet._stack.callback(ended.append, "worker")
    fleet.scheduler = None
    fleet.workers = [SimpleNamespace(ask_to_stop=interrupted)]
    fleet.producer = SimpleNamespace(ask_to_stop=lambda: None)
    with pytest.raises(KeyboardInterrupt):
        with fleet:
            pass
    assert ended == ["worker"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_end_from_outside_is_an_interruption(handlers, number):
    """A terminal that goes away, too: workers and servers have sessions of their own."""
    signal.signal(number, signal.SIG_DFL)
    with _signals():
        handler = signal.getsignal(number)
        assert callable(handler)
        with pytest.raises(KeyboardInterrupt):
            handler(number, None)
    assert signal.getsignal(number) is signal.SIG_DFL


def test_what_is_to_outlive_the_terminal_does(handlers):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with _signals():
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
