"""``tq verify``: whether a namespace kept its promises, and which task tells that it did not."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from tq_celery.cli.groups import TQCommand
from tq_celery.cli.output import print_json
from tq_celery.cli.session import Session, with_session

if TYPE_CHECKING:
    from tq_celery.store.verify import Verification

__all__ = ["verify"]

#: Offending ids that are named for each promise; all of them with ``--json``.
NAMED = 10
#: Characters of a line about one id.
LONGEST = 400


@click.command(
    cls=TQCommand,
    examples=(
        "tq verify",
        "tq verify --json",
    ),
)
@with_session
def verify(session: Session) -> None:
    """Check the books of the namespace against its promises.

    Reads result records, dead letters and what is live: epochs never go back, no task is settled
    twice, every live task is in exactly one place, counters say what is there, accepted = settled
    by outcome + live by state, nothing was dispatched beyond credit and caps, and tenants were
    served as the policy says. A namespace may be at work meanwhile. Says how far it could see, and
    fails when results or dead letters were trimmed: keep them all with results_maxlen = none.
    Give it the settings of the workers (-A): an id may be used again once done_memory and done_max
    have let the first task be forgotten.
    Exit code 1 and the offending ids when a promise is broken.
    """
    from tq_celery.store.verify import verify as look

    inspector, settings = session.inspector, session.settings
    found = look(
        inspector.client,
        inspector.keys,
        done_memory=settings.done_memory,
        done_max=settings.done_max,
    )
    if session.json:
        print_json(found.as_dict())
    else:
        _tell(found)
    if not found.passed:
        click.get_current_context().exit(1)


def _tell(found: Verification) -> None:
    from tq_celery.store.verify.contract import PROMISES

    horizon = found.horizon
    since, until = _clock(horizon.since), _clock(horizon.until)
    click.echo(f"{horizon.results.length} results from {since} to {until}, {horizon.live} live")
    for promise, several in found.by_promise().items():
        looked_at = horizon.checked.get(promise, 0)
        if several:
            _say("broken", "red", f"{PROMISES[promise]}: {len(several)} times")
        elif looked_at:
            _say("held", "green", f"{PROMISES[promise]} ({looked_at})")
        else:
            _say("unseen", "yellow", PROMISES[promise])
        for each in several[:NAMED]:
            click.echo(_line(f"  {each.id} {each.message}"))
        if len(several) > NAMED:
            click.echo(f"  and {len(several) - NAMED} more: see --json")
    for limit in horizon.limits:
        _say("limit", "yellow", limit)


def _say(word: str, colour: str, text: str) -> None:
    click.echo(click.style(f"{word:<8}", fg=colour) + text)


def _line(text: str) -> str:
    """Return one line without control characters, whatever an id consists of."""
    cut = text if len(text) <= LONGEST else f"{text[:LONGEST]}... (all of it: see --json)"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


def _clock(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
