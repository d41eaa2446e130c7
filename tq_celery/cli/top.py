"""``tq top``: the namespace on a terminal, again and again."""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from signal import SIGINT
from typing import Any

import click

from tq_celery.cli.durations import duration
from tq_celery.cli.groups import CommandError, TQCommand, option, plain_errors
from tq_celery.cli.output import print_json
from tq_celery.cli.session import Session, with_session
from tq_celery.flower.snapshot import ORDERS, take
from tq_celery.replay.signals import Ended, ended_by_signals
from tq_celery.store.standing import Standings

__all__ = ["Reader", "top"]

#: Shortest time between two readings, seconds: each asks the server some dozen questions.
SHORTEST = 0.2


@click.command(
    cls=TQCommand,
    examples=(
        "tq top",
        "tq top --sort oldest --every 5s",
        "tq top --once --json",
    ),
)
@option(
    "--once",
    is_flag=True,
    envvar="TQ_TOP_ONCE",
    help="Show it once, and end; so it does with --json, and where there is no terminal.",
)
@option(
    "--every",
    metavar="DURATION",
    default="2s",
    show_default=True,
    callback=duration,
    envvar="TQ_TOP_EVERY",
    help="Time between two looks.",
)
@option(
    "--sort",
    type=click.Choice(ORDERS),
    default="waiting",
    show_default=True,
    envvar="TQ_TOP_SORT",
    help="What puts a tenant first.",
)
@with_session
def top(session: Session, once: bool, every: float, sort: str) -> None:
    """Show who leads, what waits where, and how each tenant stands, until q or Ctrl-C.

    A tenant's share of the service stands beside the share it is due; waits are those of the tasks
    that ended in the last ten minutes. While the server does not answer, the last picture stays,
    and one line says so.
    """
    if every < SHORTEST:
        raise CommandError(f"--every {every:g}s: at least {SHORTEST:g}s")
    read = Reader(session, sort)
    if session.json:
        print_json(read.look())
        return
    if find_spec("rich") is None:
        raise CommandError("top needs 'rich': pip install 'tq-celery[top]'")
    # A help page and --json do without.
    from tq_celery.cli.keyboard import keyboard
    from tq_celery.cli.top_screen import once_on, watch_on

    if once or not sys.stdout.isatty():
        once_on(read.look())
        return
    try:
        with ended_by_signals(), keyboard() as wait:
            watch_on(read, every, wait)
    except Ended as ended:
        raise SystemExit(0 if ended.number == SIGINT else ended.exit_code) from None


class Reader:
    """Reads the namespace; keeps the last picture for when the server does not answer.

    ``seen`` is that picture, None before the first; ``error`` says why there is no newer one, and
    ``since`` (monotonic seconds) when the last was taken.
    """

    def __init__(self, session: Session, sort: str) -> None:
        self._inspector = session.inspector
        self._standings = Standings(self._inspector)
        self._sort = sort
        self.seen: dict[str, Any] | None = None
        self.error = ""
        self.since = time.monotonic()
        self.namespace = session.settings.namespace

    def look(self) -> dict[str, Any]:
        """Read now; raises what the store raises."""
        found = take(self._inspector, self._standings)
        found["tenants"].sort(key=lambda each: each["tenant"])
        if self._sort != "tenant":
            found["tenants"].sort(key=lambda each: -(each[self._sort] or 0))
        return found

    def again(self) -> None:
        """Read now; on an error keep what was read before, and say why."""
        try:
            with plain_errors():
                self.seen = self.look()
        except CommandError as error:
            self.error = error.format_message()
        else:
            self.error, self.since = "", time.monotonic()
