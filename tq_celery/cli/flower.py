"""``tq flower``: Celery's monitor with a page for the scheduler."""

from __future__ import annotations

import click

from tq_celery.cli.groups import CommandError, TQCommand
from tq_celery.cli.session import Session, with_session

__all__ = ["flower"]


@click.command(
    cls=TQCommand,
    context_settings={"ignore_unknown_options": True},
    examples=(
        "tq flower -A proj --port=5555",
        "tq flower -A proj --basic_auth=user:password --address=0.0.0.0",
    ),
)
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[--FLOWER_OPTION=VALUE]...")
@with_session
def flower(session: Session, options: tuple[str, ...]) -> None:
    """Run Flower with the Scheduler page until it is stopped.

    Takes the options of celery flower, written --name=value, and its FLOWER_* variables. Needs an
    application (-A) and the flower extra.
    """
    if session.app is None:
        raise CommandError("flower needs a Celery application: tq -A proj flower")
    try:
        from tq_celery.flower.serve import serve
    except ModuleNotFoundError as error:
        raise CommandError(
            f"flower needs {error.name!r}, which is not installed: pip install 'tq-celery[flower]'"
        ) from error
    serve(session.app, session.settings, options)
