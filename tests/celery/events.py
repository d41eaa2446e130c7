"""What an application's workers tell while a test looks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tests.waiting import wait_until

__all__ = ["collected"]

Events = list[dict[str, Any]]


@contextmanager
def collected(app: Any, listening: Callable[[Events], object] = bool) -> Iterator[Events]:
    """Collect the events that arrive during the block, which begins when ``listening`` says so."""
    seen: Events = []
    receivers: list[Any] = []

    def capture() -> None:
        with app.connection_for_read() as connection:
            receivers.append(app.events.Receiver(connection, handlers={"*": seen.append}))
            with suppress(OSError):
                receivers[0].capture(limit=None, timeout=60, wakeup=True)

    thread = threading.Thread(target=capture)
    thread.start()
    try:
        wait_until(lambda: listening(seen), "events arrive")
        yield seen
    finally:
        receivers[0].should_stop = True
        thread.join()
