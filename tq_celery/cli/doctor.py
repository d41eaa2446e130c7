"""``tq doctor``: what a deployment gets wrong, and what to do about it."""

from __future__ import annotations

import click

from tq_celery.cli.groups import CommandError, TQCommand
from tq_celery.cli.output import print_json
from tq_celery.cli.session import Session, with_session

__all__ = ["doctor"]

#: Characters of a value that is nothing of ours which are shown.
LONGEST = 200
COLOURS = {"ok": "green", "warn": "yellow", "error": "red"}


@click.command(
    cls=TQCommand,
    examples=(
        "tq doctor",
        "tq doctor --json",
    ),
)
@with_session
def doctor(session: Session) -> None:
    """Check server, scheduler and workers of the namespace.

    Prints one line per finding and what to do. Exit code 1 when an error was found.
    """
    from tq_celery.cli.checks import Facts, examine
    from tq_celery.store.health import foreign_keys, server_facts
    from tq_celery.store.operator import SCHEMA
    from tq_celery.store.views import empty_overview

    inspector, settings = session.inspector, session.settings
    foreign = foreign_keys(inspector.client, inspector.keys)
    server = server_facts(inspector.client, inspector.keys)
    try:
        view = empty_overview(inspector.keys.namespace) if foreign else inspector.overview()
    except (ValueError, OverflowError) as error:
        told = f"{error}"[:LONGEST]
        raise CommandError(f"the namespace holds what is not this library's: {told}") from error
    facts = Facts(
        server=server,
        view=view,
        foreign=foreign,
        schema=str(SCHEMA),
        sentinels=settings.url.startswith("sentinel://"),
        leader_replicas=settings.leader_replicas,
        results_maxlen=settings.results_maxlen,
    )
    findings = examine(facts)
    counts = {level: sum(f.level == level for f in findings) for level in COLOURS}
    if session.json:
        print_json({"findings": findings, **counts})
    else:
        for finding in findings:
            label = click.style(f"{finding.level:<6}", fg=COLOURS[finding.level])
            action = f": {finding.action}" if finding.action else ""
            click.echo(f"{label}{finding.message}{action}")
        click.echo(f"{counts['error']} errors, {counts['warn']} warnings")
    if counts["error"]:
        click.get_current_context().exit(1)
