"""``tq cancel``: end tasks by id or stamp before they run, and if need be while they run."""

from __future__ import annotations

from signal import Signals
from typing import Any

import click

from tq_celery.cli.groups import CommandError, TQCommand, option
from tq_celery.cli.output import print_json
from tq_celery.cli.session import Session, with_session

__all__ = ["cancel"]

#: What cancelling an id may come to, in words.
SAID = {
    "revoked": "revoked",
    "dispatched": "a worker has it",
    "unknown": "not here; remembered in case it comes",
}


def stamps(ctx: click.Context, param: click.Parameter, value: Any) -> dict[str, list[str]]:
    """Option callback: ``HEADER=VALUE``, any number of times."""
    found: dict[str, list[str]] = {}
    for text in value:
        header, sign, stamp = text.partition("=")
        if not header or not sign:
            raise click.BadParameter(f"{text!r} is not HEADER=VALUE", ctx, param)
        found.setdefault(header, []).append(stamp)
    return found


def signal_name(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Option callback: a signal's name, with or without SIG; the workers' answer is not awaited."""
    name = value.upper()
    if not {name, f"SIG{name}"} & set(Signals.__members__):
        raise click.BadParameter(f"there is no signal {value!r}", ctx, param)
    return name


@click.command(
    cls=TQCommand,
    examples=(
        "tq cancel 1f0c9a3e-6f0e-4a53-9d0f-2f6f5f4f2c11",
        "tq cancel --stamp customer=acme",
        "tq -A proj cancel --terminate 1f0c9a3e-6f0e-4a53-9d0f-2f6f5f4f2c11",
    ),
)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@option(
    "--stamp",
    "stamped",
    multiple=True,
    callback=stamps,
    metavar="HEADER=VALUE",
    envvar="TQ_CANCEL_STAMP",
    help="Every task with this stamped header; may be repeated.",
)
@option(
    "--terminate",
    is_flag=True,
    envvar="TQ_CANCEL_TERMINATE",
    help="End it where it runs, too (prefork and gevent workers; needs --app).",
)
@option(
    "--signal",
    "signal_",
    default="SIGTERM",
    show_default=True,
    callback=signal_name,
    metavar="NAME",
    envvar="TQ_CANCEL_SIGNAL",
    help="Signal that --terminate sends to the process.",
)
@with_session
def cancel(
    session: Session,
    ids: tuple[str, ...],
    stamped: dict[str, list[str]],
    terminate: bool,
    signal_: str,
) -> None:
    """End tasks before they run.

    What waits is removed and ends as REVOKED; an id that is not here is remembered for three hours
    and ends when it is submitted. With --app the workers are told as well, as by Celery's
    control.revoke, which reaches what they hold.
    """
    if not ids and not stamped:
        raise CommandError("name the tasks, by id or with --stamp HEADER=VALUE")
    if not all(ids):
        raise CommandError("an id is empty; nothing was cancelled")
    if terminate and session.app is None:
        raise CommandError("--terminate asks the workers over the broker: name the app with --app")
    found = session.store.revoke(list(dict.fromkeys(ids))) if ids else {}
    removed = session.store.revoke_stamped(stamped) if stamped else 0
    told = session.app is not None
    if told:
        _tell(session.app, list(found), stamped, terminate=terminate, signal=signal_)
    counts = {word: list(found.values()).count(word) for word in SAID}
    if session.json:
        print_json({**counts, "ids": found, "stamped": removed, "told": told})
        return
    for each, word in found.items():
        click.echo(f"{each}: {SAID[word]}")
    if stamped:
        click.echo(f"{removed} revoked by stamp; workers end those that come later")
    if counts["dispatched"] and not told:
        click.echo("Name the app with --app to tell the worker; otherwise it may run.", err=True)


def _tell(
    app: Any, ids: list[str], stamped: dict[str, list[str]], *, terminate: bool, signal: str
) -> None:
    """Broadcast what the store knows already."""
    from kombu.exceptions import KombuError

    how = {"terminate": terminate, "signal": signal}
    try:
        if ids:
            app.control.revoke(ids, **how)
        if stamped:
            app.control.revoke_by_stamped_headers(stamped, **how)
    except (KombuError, OSError) as error:
        raise CommandError(f"revoked here, but the broker did not answer: {error}") from error
