"""``tq queues``: what waits where, and switching a queue off and on."""

from __future__ import annotations

import difflib

import click

from tq_celery.cli.groups import CommandError, NounGroup
from tq_celery.cli.output import print_json, print_table
from tq_celery.cli.session import Session, with_session
from tq_celery.store.views import QueueView

__all__ = ["queue_rows", "queues", "require_queue"]

HEAD = ["queue", "state", "submitted", "delayed", "pending", "dispatched", "running", "tenants",
        "gated", "workers", "slots"]  # fmt: skip


@click.group(cls=NounGroup, examples=("tq queues list",))
def queues() -> None:
    """List, pause and resume queues."""


@queues.command("list", examples=("tq queues list --json",))
@with_session
def list_(session: Session) -> None:
    """List queues with their live tasks by state."""
    found = session.inspector.queues()
    if session.json:
        print_json({"queues": found})
    else:
        print_table(HEAD, queue_rows(found))


@queues.command(examples=("tq queues pause reports",))
@click.argument("queue", metavar="QUEUE")
@with_session
def pause(session: Session, queue: str) -> None:
    """Stop dispatching from a queue.

    New tasks are still taken and wait; those already dispatched run to their end.
    """
    require_queue(session, queue)
    session.store.pause_queue(queue)
    _report(session, queue, "paused")


@queues.command(examples=("tq queues resume reports",))
@click.argument("queue", metavar="QUEUE")
@with_session
def resume(session: Session, queue: str) -> None:
    """Dispatch from a paused queue again."""
    require_queue(session, queue)
    session.store.resume_queue(queue)
    _report(session, queue, "resumed")


def queue_rows(views: list[QueueView]) -> list[list[object]]:
    """Return the rows of the table of queues."""
    return [
        [
            view.queue,
            "paused" if view.paused else "",
            view.submitted,
            view.delayed,
            view.pending,
            view.dispatched,
            view.running,
            view.tenants + view.gated + view.unranked,
            view.gated,
            view.workers,
            view.slots,
        ]
        for view in views
    ]


def require_queue(session: Session, queue: str) -> None:
    """Raise CommandError for a queue that the namespace does not know, with the closest name."""
    known = [view.queue for view in session.inspector.queues()]
    if queue in known:
        return
    close = difflib.get_close_matches(queue, known, 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise CommandError(f"no such queue: {queue} never took a task and no worker serves it{hint}")


def _report(session: Session, queue: str, done: str) -> None:
    if session.json:
        print_json(next(view for view in session.inspector.queues() if view.queue == queue))
    else:
        click.echo(f"{queue}: {done}")
