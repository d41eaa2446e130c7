"""``tq status``: the namespace at one look, read from the server only."""

from __future__ import annotations

import sys
import time

import click

from tq_celery.cli import names
from tq_celery.cli.durations import duration, format_age
from tq_celery.cli.groups import CommandError, TQCommand, option, plain_errors
from tq_celery.cli.output import print_json, table
from tq_celery.cli.policy import policy_line
from tq_celery.cli.queues import HEAD, queue_rows
from tq_celery.cli.session import Session, with_session
from tq_celery.store.views import Overview

__all__ = ["status"]


@click.command(
    cls=TQCommand,
    examples=(
        "tq status --watch 2s",
        "tq status --json",
    ),
)
@option(
    "--top",
    type=click.IntRange(0, 10_000),
    default=10,
    show_default=True,
    envvar="TQ_STATUS_TOP",
    help="How many tenants to show, most waiting tasks first.",
)
@option(
    "--watch",
    metavar="DURATION",
    callback=duration,
    envvar="TQ_STATUS_WATCH",
    help="Show it again every DURATION, such as 2s, until interrupted.",
)
@with_session
def status(session: Session, top: int, watch: float | None) -> None:
    """Show leader, queues, tenants and workers of the namespace.

    Everything is read from the server, so the answer holds when a process is wedged. With --watch
    it goes on while the server does not answer, and says so.
    """
    if watch is None:
        _show(session, top)
        return
    try:
        while True:
            try:
                with plain_errors():
                    _show(session, top, clear=sys.stdout.isatty())
            except CommandError as error:
                click.echo(f"tq: {error.format_message()}; trying again", err=True)
            time.sleep(watch)
    except KeyboardInterrupt:
        return


def _show(session: Session, top: int, clear: bool = False) -> None:
    """Print what the server says now."""
    view = session.inspector.overview()
    view.tenants.sort(key=lambda item: (-sum(item.pending.values()), -item.live, item.tenant))
    if session.json:
        del view.tenants[top:]
        print_json(view)
        return
    if clear:
        click.clear()
    click.echo(render(view, top))


def render(view: Overview, top: int) -> str:
    """Return the overview as text."""
    parts = [_summary(view)]
    if view.queues:
        parts.append(table(HEAD, queue_rows(view.queues)))
    if view.tenants and top:
        parts.append(_tenants(view, top))
    if view.workers:
        parts.append(_workers(view))
    return "\n\n".join(parts)


def _summary(view: Overview) -> str:
    leader = view.leader
    slots = sum(worker.slots for worker in view.workers if worker.remaining > 0)
    alive = sum(worker.remaining > 0 for worker in view.workers)
    held = "none"
    if leader.owner is not None:
        held = f"{leader.owner} for {format_age(leader.remaining / 1000)} more"
    pending = sum(queue.pending for queue in view.queues)
    dispatched = sum(queue.dispatched for queue in view.queues)
    running = sum(queue.running for queue in view.queues)
    lines = {
        "namespace": view.namespace,
        "leader": held,
        **({"standing by": ", ".join(leader.standbys)} if leader.standbys else {}),
        "epoch": f"{leader.epoch} (highest that has written: {leader.fence})",
        "policy": policy_line(view.config),
        "waiting": f"{pending} pending, {view.submitted} submitted, {view.delayed} delayed",
        "in flight": f"{dispatched} dispatched, {running} running",
        "workers": f"{alive} with {slots} slots"
        + ("; work waits for a slot" if view.starved else ""),
        "dead letters": view.dead,
    }
    if view.draining:
        lines["draining"] = f"{view.draining} drained, to be published: tq drain"
    return "\n".join(f"{label + ':':<14}{value}" for label, value in lines.items())


def _tenants(view: Overview, top: int) -> str:
    rows = [
        [
            names.show(tenant.tenant),
            f"{tenant.weight:g}",
            tenant.max_running,
            "paused" if tenant.paused else "",
            sum(tenant.pending.values()),
            tenant.running,
            tenant.live,
        ]
        for tenant in view.tenants[:top]
    ]
    text = table(["tenant", "weight", "cap", "state", "pending", "running", "live"], rows)
    rest = len(view.tenants) - top
    if rest > 0 or view.partial:
        text += f"\n(and {max(rest, 0)}{' or more' if view.partial else ''} others; see --top)"
    return text


def _workers(view: Overview) -> str:
    return table(
        ["worker", "pool", "queues", "slots", "holding", "lease"],
        [
            [
                worker.worker,
                worker.pool,
                ",".join(worker.queues),
                worker.slots,
                worker.holding,
                format_age(worker.remaining / 1000) if worker.remaining > 0 else "lapsed",
            ]
            for worker in view.workers
        ],
    )
