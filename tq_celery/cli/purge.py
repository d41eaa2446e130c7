"""``tq purge``: remove what waits, by queue and tenant."""

from __future__ import annotations

import click

from tq_celery.cli import names
from tq_celery.cli.groups import CommandError, TQCommand, option
from tq_celery.cli.output import print_json
from tq_celery.cli.queues import require_queue
from tq_celery.cli.session import Session, with_session

__all__ = ["purge"]


@click.command(
    cls=TQCommand,
    examples=(
        "tq purge --queue reports --dry-run",
        "tq purge --queue reports --tenant acme --yes",
    ),
)
@option(
    "--queue",
    "queues",
    multiple=True,
    metavar="QUEUE",
    envvar="TQ_PURGE_QUEUE",
    help="Only this queue; may be repeated (default: all queues of the namespace).",
)
@option(
    "--tenant",
    callback=names.tenant,
    metavar="TENANT",
    envvar="TQ_PURGE_TENANT",
    help="Only tasks of this tenant.",
)
@option("--dry-run", is_flag=True, envvar="TQ_PURGE_DRY_RUN", help="Count, and remove nothing.")
@option("--yes", "--force", "yes", is_flag=True, envvar="TQ_PURGE_YES", help="Do not ask.")
@with_session
def purge(
    session: Session, queues: tuple[str, ...], tenant: bytes | None, dry_run: bool, yes: bool
) -> None:
    """Remove all waiting tasks for good.

    That is what was submitted, what is delayed or pending, and what was dispatched and not yet read
    by a worker. Each ends as REVOKED. Tasks in a worker's hands go on, dead letters stay.
    """
    for queue in queues:
        require_queue(session, queue)
    chosen = list(dict.fromkeys(queues)) or None
    if not yes or dry_run:
        count = sum(len(batch) for batch in session.store.waiting(chosen, tenant=tenant))
        if dry_run:
            _report(session, count, "would be purged")
            return
        if session.json:
            raise CommandError("say --yes to purge with --json, which cannot ask")
        of = f"queues {', '.join(chosen)}" if chosen else "all queues"
        whose = "" if tenant is None else f" for tenant {names.show(tenant)}"
        click.echo(f"This removes {count} waiting tasks from {of}{whose}, for good.", err=True)
        if not click.confirm("Remove them?", err=True):
            raise CommandError("nothing was purged")
    _report(session, session.store.purge(chosen, tenant=tenant), "purged")


def _report(session: Session, count: int, done: str) -> None:
    if session.json:
        print_json({"purged": count, "dry_run": done != "purged"})
    else:
        click.echo(f"{count} {done}")
