"""``tq drain``: move what waits back to the broker's own queues."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from tq_celery.cli.groups import CommandError, TQCommand, option
from tq_celery.cli.output import print_json
from tq_celery.cli.queues import require_queue
from tq_celery.cli.session import Session, with_session
from tq_celery.store.stopping_contract import Drained, Found

__all__ = ["drain"]

#: Tasks that are on their way at once: what an interruption may publish twice.
BATCH = 100
#: Headers of ours: inheritance, and what a delivery is known by.
_OURS = frozenset({"tq", "tq_token", "tq_key"})
#: Tasks that are put into the order of their arrival at once.
WINDOW = 100_000
#: Passes over the namespace: tasks that moved meanwhile are found by the next.
PASSES = 3


@click.command(
    cls=TQCommand,
    examples=("tq drain -A proj --queue reports --dry-run", "tq drain -A proj"),
)
@option(
    "--queue",
    "queues",
    multiple=True,
    metavar="QUEUE",
    envvar="TQ_DRAIN_QUEUE",
    help="Only this queue; may be repeated (default: all queues of the namespace).",
)
@option("--dry-run", is_flag=True, envvar="TQ_DRAIN_DRY_RUN", help="Count, and move nothing.")
@with_session
def drain(session: Session, queues: tuple[str, ...], dry_run: bool) -> None:
    """Move what waits to its queue on the application's broker.

    That is what was submitted, what is pending, and what is delayed, which keeps the rest of its
    delay. Each keeps its id, and its priority as far as the broker has such a thing; in the
    namespace it ends as drained. What was dispatched already is run by the workers as ever. Let
    the application stop scheduling first (tq_fraction = 0), or new tasks follow.

    A drain that was interrupted, in whatever way, goes on when it is started again; the tasks that
    were on their way then, at most 100, may be published twice.
    """
    for queue in queues:
        require_queue(session, queue)
    chosen = list(dict.fromkeys(queues)) or None
    if dry_run:
        count = sum(len(batch) for batch in session.store.waiting(chosen, exec_too=False))
        _report(session, {"drained": count, "resumed": 0, "unreadable": 0, "dry_run": True})
        return
    if session.app is None:
        raise CommandError("name the application whose broker gets the tasks: tq drain -A proj")
    with _Way(session) as way:
        resumed = way.publish_all()
        for _ in range(PASSES):
            before = way.published
            for window in _windows(session.store.waiting(chosen, exec_too=False)):
                for start in range(0, len(window), BATCH):
                    way.move(window[start : start + BATCH])
            if way.published == before:
                break
        done = way.published - resumed
        counts = {"drained": done, "resumed": resumed, "unreadable": len(way.unreadable)}
    _report(session, {**counts, "dry_run": False})


class _Way:
    """From the namespace to the broker, a batch at a time; a context manager."""

    def __init__(self, session: Session) -> None:
        self.session, self.store, self.app = session, session.store, session.app
        self.published = 0
        self.unreadable: set[bytes] = set()
        self._connection: Any = None
        self._producer: Any = None

    def __enter__(self) -> _Way:
        # Unless the broker confirms, what it was sent may be gone with it, and we would forget it.
        options = {**(self.app.conf.broker_transport_options or {}), "confirm_publish": True}
        self._connection = self.app.connection_for_write(transport_options=options)
        self._producer = self.app.amqp.Producer(self._connection)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._connection.release()
        if self._progress:
            click.echo("", err=True)

    @property
    def _progress(self) -> bool:
        return not self.session.json and sys.stderr.isatty()

    def move(self, found: Sequence[Found]) -> None:
        """Take tasks out of the namespace and publish them; what cannot be read stays in it."""
        messages = self.store.messages([each.key for each in found])
        items = []
        for each, message in zip(found, messages, strict=True):
            if message is None:  # it ended meanwhile
                continue
            if _without_ours(message) is None:
                self.unreadable.add(each.key)
            else:
                items.append(each.item)
        self.store.drain(items)
        self.publish_all()

    def publish_all(self) -> int:
        """Publish everything that has been taken out; returns how many tasks that were."""
        before = self.published
        while tasks := self.store.draining(BATCH):
            now = self.session.inspector.now()
            for task in tasks:
                self._publish(task, now)
            self.store.close_drained([task.key for task in tasks])
            self.published += len(tasks)
            if self._progress:
                click.echo(f"\r{self.published} moved", err=True, nl=False)
        return self.published - before

    def _publish(self, task: Drained, now: int) -> None:
        from tq_celery.detour import publish
        from tq_celery.store.contract import Submission
        from tq_celery.store.record import TaskKey

        payload = _without_ours(task.payload)
        if payload is None:
            raise CommandError(f"the message of {task.key.decode(errors='replace')} is gone")
        attached = vars(self.app).get("tq")
        usual = attached.default.priority if attached is not None else 0
        delay = max(1, task.due - now) if task.due else None
        key = TaskKey.decode(task.key)
        submission = Submission(key, task.queue, task.tenant, payload, b"", delay=delay)
        with _broker(self.published):
            publish(self.app, submission, ranked=task.priority != usual, producer=self._producer)


@contextmanager
def _broker(published: int) -> Iterator[None]:
    """Say in one line that the broker did not take a task, whatever its client raised."""
    try:
        yield
    except Exception as error:
        raise CommandError(
            f"the broker did not take a task ({type(error).__name__}: {error}); {published} were "
            "moved, none is lost: run tq drain again to go on"
        ) from error


def _without_ours(payload: bytes | None) -> bytes | None:
    """Return the message without the headers that mean something to the scheduler only."""
    from tq_celery import envelope

    if payload is None:
        return None
    try:
        message = envelope.decode(payload)
    except envelope.EnvelopeError:
        return None
    headers = {name: value for name, value in message.headers.items() if name not in _OURS}
    text = message.content_encoding == "utf-8" and not headers.get("compression")
    body = message.body.decode() if text else message.body
    return envelope.encode(
        body, message.content_type, message.content_encoding, headers, message.properties
    )


def _windows(batches: Iterator[list[Found]]) -> Iterator[list[Found]]:
    """Yield tasks in the order of their arrival, as far as there is room to sort them."""
    window: list[Found] = []
    for batch in batches:
        window += batch
        if len(window) >= WINDOW:
            yield sorted(window, key=_arrival)
            window = []
    yield sorted(window, key=_arrival)


def _arrival(found: Found) -> tuple[int, int, int]:
    """Return a sort key: pending tasks by arrival, then submitted ones, then delayed ones."""
    from tq_celery.store.record import ARRIVAL

    where, member = found.item.where, found.item.member
    if where == "pending":
        return (0, *ARRIVAL.unpack_from(member))
    if where == "ingress":
        ms, _, sequence = member.partition(b"-")
        return (1, int(ms), int(sequence))
    return (2, 0, 0)


def _report(session: Session, counts: dict[str, Any]) -> None:
    if session.json:
        print_json(counts)
        return
    text = f"{counts['drained']} {'would be drained' if counts['dry_run'] else 'drained'}"
    if counts["resumed"]:
        text += f", after {counts['resumed']} of an earlier drain"
    if counts["unreadable"]:
        text += f"; {counts['unreadable']} cannot be read and stay"
    click.echo(text)
