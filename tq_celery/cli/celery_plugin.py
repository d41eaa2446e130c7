"""What Celery's command line loads: the ``tq`` command, and ``celery purge`` for our tasks too.

``celery purge`` empties the broker's queues one by one over a connection, past ``app.control``. For
an application with a ``TQ`` that connection also empties the queue of the same name in the
namespace, so Celery's command asks as it does and prints one number for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import click
from celery.bin.purge import purge

from tq_celery.cli import main
from tq_celery.errors import StoreError

__all__ = ["main"]


class _Both:
    """A broker's connection, as far as ``celery purge`` uses one; its purge reaches the store."""

    def __init__(self, connection: Any, purge_ours: Callable[[str], int]) -> None:
        self._connection = connection
        self._purge_ours = purge_ours
        self.channel_errors: tuple[type[Exception], ...] = ()

    def __enter__(self) -> _Both:
        self._connection.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._connection.__exit__(kind, error, traceback)

    @property
    def default_channel(self) -> _Both:
        return self

    def queue_purge(self, queue: str) -> int:
        """Purge the broker's queue, which need not exist, then ours of that name."""
        try:
            count = self._connection.default_channel.queue_purge(queue) or 0
        except self._connection.channel_errors:
            count = 0
        return int(count) + self._purge_ours(queue)


@contextmanager
def _reaching_both(app: Any) -> Iterator[None]:
    """Give the application connections that purge both, and say at the end what was not purged."""
    failures: list[StoreError] = []

    def purge_ours(queue: str) -> int:
        if failures:  # a server that is away is asked once
            return 0
        try:
            return int(app.tq.stopping.purge([queue]))
        except StoreError as error:
            failures.append(error)
            return 0

    def connection(*args: Any, **options: Any) -> _Both:
        return _Both(original(*args, **options), purge_ours)

    original = app.connection_for_write
    own = vars(app).get("connection_for_write")
    app.connection_for_write = connection
    try:
        yield
    finally:
        if own is None:
            del app.connection_for_write
        else:
            app.connection_for_write = own
    if failures:
        raise click.ClickException(
            f"scheduled tasks were not all purged, the scheduler's server failed: {failures[0]}"
        )


def _hook(command: click.Command) -> None:
    """Make ``celery purge`` reach both, for applications with a TQ."""
    stock: Any = command.callback

    def callback(*args: Any, **options: Any) -> Any:
        app = getattr(click.get_current_context().obj, "app", None)
        if app is None or "tq" not in vars(app):
            return stock(*args, **options)
        with _reaching_both(app):
            return stock(*args, **options)

    command.callback = callback


_hook(purge)
