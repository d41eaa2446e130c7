"""A worker that cannot start says so in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from celery.platforms import EX_FAILURE

from tq_celery.errors import SettingsError
from tq_celery.logs import Log

__all__ = ["or_end"]

log = Log("tq_celery.worker")


@contextmanager
def or_end() -> Iterator[None]:
    """End the worker with one line, where the block finds a setting wrong."""
    try:
        yield
    except SettingsError as error:
        log.error("the worker cannot start", error=error)
        raise SystemExit(EX_FAILURE) from None
