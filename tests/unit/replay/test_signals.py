"""What ends a run in order, and what is left alone."""

from __future__ import annotations

import os
import signal

import pytest

from tq_celery.replay.signals import Ended, ended_by_signals


@pytest.fixture(autouse=True)
def _terminal():
    """The tests themselves may run under nohup, where a hang-up is ignored from the start."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_body_once_and_handlers_come_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(Ended) as caught, ended_by_signals():
        try:
            os.kill(os.getpid(), number)
            signal.pause()
        finally:
            os.kill(os.getpid(), signal.SIGTERM)  # the clean-up is not interrupted
    assert caught.value.exit_code == 128 + number
    assert str(caught.value) == number.name
    assert signal.getsignal(number) == before


def test_a_terminal_that_may_close_does_not_end_the_run() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_by_signals():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
