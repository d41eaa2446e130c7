"""Wait for a condition with a description; never sleep and hope."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    condition: Callable[[], T], description: str, timeout: float = 10.0, interval: float = 0.01
) -> T:
    """Return the condition's first true value; fail with the description after ``timeout`` s."""
    give_up = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > give_up:
            raise AssertionError(f"not within {timeout:g} s: {description} (last: {value!r})")
        time.sleep(interval)
