"""Keeps a heartbeat from holding up the worker while its broker is away.

Celery sends heartbeats with a retry that has no end: one that meets a lost broker repeats in
the event loop, which then hears neither a signal nor remote control nor us. Without the retry the
dispatcher keeps the event until it can be sent, and the loop meets the lost broker by itself.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

__all__ = ["never_wait"]


def never_wait(dispatcher: Any) -> None:
    """Make ``dispatcher`` keep what it cannot send instead of trying again; None is let be."""
    if dispatcher is None or "send" in vars(dispatcher):
        return
    send = dispatcher.send

    @wraps(send)
    def at_once(*args: Any, **fields: Any) -> Any:
        return send(*args, **{**fields, "retry": False})

    dispatcher.send = at_once
