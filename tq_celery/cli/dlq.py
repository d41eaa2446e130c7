"""``tq dlq``: tasks that were given up, with everything needed to run them again."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

import click

from tq_celery.cli import names
from tq_celery.cli.durations import duration, format_age
from tq_celery.cli.groups import CommandError, NounGroup, option
from tq_celery.cli.output import print_json, print_table
from tq_celery.cli.session import Session, with_session
from tq_celery.store.views import DeadLetter

__all__ = ["dlq"]

#: Dead letters read or changed per call.
BATCH = 200
#: What requeueing an entry may come to, in words.
REQUEUED = {
    "requeued": "requeued",
    "repeat": "requeued before",
    "missing": "not among the dead letters",
    "unreadable": "not readable as a task (tq dlq show has what there is)",
}
_ENTRY = re.compile(r"\d+-\d+")


@click.group(cls=NounGroup, examples=("tq dlq list",))
def dlq() -> None:
    """Read, requeue and purge dead letters."""


def entries(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """Argument callback: one or more entry ids such as ``1700000000000-0``."""
    for entry in (value,) if isinstance(value, str) else value:
        if not _ENTRY.fullmatch(entry):
            raise click.BadParameter(
                f"{entry!r} is not a dead letter's entry; tq dlq list shows them", ctx, param
            )
    return value


queue_option = option("--queue", envvar="TQ_DLQ_QUEUE", help="Only those of this queue.")
tenant_option = option(
    "--tenant", callback=names.tenant, envvar="TQ_DLQ_TENANT", help="Only those of this tenant."
)
entries_argument = click.argument("chosen", nargs=-1, metavar="[ENTRY]...", callback=entries)
all_option = option(
    "--all", "every", is_flag=True, envvar="TQ_DLQ_ALL", help="Every entry that the filters leave."
)


@dlq.command("list", examples=("tq dlq list --queue reports --limit 10",))
@option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    envvar="TQ_DLQ_LIST_LIMIT",
    help="Most entries to show.",
)
@queue_option
@tenant_option
@with_session
def list_(session: Session, limit: int, queue: str | None, tenant: bytes | None) -> None:
    """List dead letters, oldest first."""
    total = session.inspector.dead_count()
    found: list[DeadLetter] = []
    for letter in _matching(session, queue, tenant):
        found.append(letter)
        if len(found) == limit:
            break
    if session.json:
        print_json({"dead": total, "entries": [_json(letter) for letter in found]})
        return
    now = session.inspector.now()
    print_table(
        ["entry", "age", "queue", "tenant", "task", "id", "attempts", "reason"],
        [
            [
                letter.entry,
                format_age(max(0, now - letter.at) / 1000),
                letter.queue,
                names.show(letter.tenant),
                _task_name(letter),
                _task_id(letter),
                letter.attempts,
                letter.reason,
            ]
            for letter in found
        ],
    )
    if len(found) < total:
        click.echo(f"{len(found)} of {total} dead letters are shown.", err=True)


@dlq.command(examples=("tq dlq show 1700000000000-0",))
@click.argument("entry", metavar="ENTRY", callback=entries)
@with_session
def show(session: Session, entry: str) -> None:
    """Show one dead letter with its message."""
    letter = session.inspector.dead_letter(entry)
    if letter is None:
        raise CommandError(f"no such dead letter: {entry}")
    document = _json(letter)
    if session.json:
        print_json(document)
        return
    message, raw = document.pop("message"), document.pop("raw")
    for field, value in document.items():
        click.echo(f"{field + ':':<10}{value}")
    for field, value in raw.items():
        click.echo(f"raw {field}: {value}")
    if message is not None:
        click.echo(json.dumps(message, indent=2, ensure_ascii=False))


@dlq.command(
    examples=(
        "tq dlq requeue 1700000000000-0",
        "tq dlq requeue --all --queue reports",
    )
)
@entries_argument
@all_option
@queue_option
@tenant_option
@with_session
def requeue(
    session: Session, chosen: tuple[str, ...], every: bool, queue: str | None, tenant: bytes | None
) -> None:
    """Send dead letters through the queue again.

    They are submitted as a new generation of their task and wait their turn like other work.
    """
    outcomes: dict[str, str] = {}
    for entry in _chosen(session, chosen, every, queue, tenant):
        outcomes[entry] = session.store.requeue(entry.encode())
    counts = {word: list(outcomes.values()).count(word) for word in REQUEUED}
    if session.json:
        print_json({**counts, "entries": outcomes})
    else:
        said = [f"{count} {REQUEUED[word]}" for word, count in counts.items() if count]
        click.echo(", ".join(said) or "nothing to requeue")
    for word in ("missing", "unreadable"):
        if chosen and counts[word]:
            entry = next(entry for entry, outcome in outcomes.items() if outcome == word)
            raise CommandError(f"{entry} is {REQUEUED[word]}")


@dlq.command(examples=("tq dlq purge --all --older-than 7d",))
@entries_argument
@all_option
@queue_option
@tenant_option
@option(
    "--older-than",
    metavar="DURATION",
    callback=duration,
    envvar="TQ_DLQ_PURGE_OLDER_THAN",
    help="Only those buried longer ago, such as 7d.",
)
@with_session
def purge(
    session: Session,
    chosen: tuple[str, ...],
    every: bool,
    queue: str | None,
    tenant: bytes | None,
    older_than: float | None,
) -> None:
    """Delete dead letters for good."""
    before = None if older_than is None else session.inspector.now() - older_than * 1000
    doomed = list(_chosen(session, chosen, every, queue, tenant, before))
    purged = sum(
        session.store.purge_dead([entry.encode() for entry in doomed[start : start + BATCH]])
        for start in range(0, len(doomed), BATCH)
    )
    if session.json:
        print_json({"purged": purged})
    else:
        click.echo(f"{purged} purged")


def _chosen(
    session: Session,
    chosen: tuple[str, ...],
    every: bool,
    queue: str | None,
    tenant: bytes | None,
    before: float | None = None,
) -> Iterator[str]:
    """Entries named on the command line, or all that match; never everything by accident."""
    if bool(chosen) == every:
        raise CommandError("name the entries, or say --all (with --queue or --tenant to narrow it)")
    if chosen:
        if queue is not None or tenant is not None or before is not None:
            raise CommandError("filters go with --all, not with named entries")
        yield from chosen
        return
    for letter in _matching(session, queue, tenant):
        if before is not None and letter.at >= before:
            return
        yield letter.entry


def _matching(session: Session, queue: str | None, tenant: bytes | None) -> Iterator[DeadLetter]:
    """Dead letters in order of burial, up to the ones there are now, page by page."""
    newest = session.inspector.dead(1, newest=True)
    after = "-"
    while newest:
        page = session.inspector.dead(BATCH, after)
        for letter in page:
            if (queue is None or letter.queue == queue) and tenant in (None, letter.tenant):
                yield letter
            if letter.entry == newest[0].entry:
                return
        if len(page) < BATCH:
            return
        after = f"({page[-1].entry}"


def _message(letter: DeadLetter) -> Any:
    """The submitted message as JSON, or base64 when it is not JSON; ``None`` without one."""
    if not letter.payload:
        return None
    try:
        return json.loads(letter.payload)
    except ValueError:
        return {"base64": base64.b64encode(letter.payload).decode()}


def _task_name(letter: DeadLetter) -> str:
    message = _message(letter)
    headers = message.get("headers") if isinstance(message, dict) else None
    return str(headers.get("task", "")) if isinstance(headers, dict) else ""


def _task_id(letter: DeadLetter) -> str:
    return letter.key.split(".", 3)[-1]


def _json(letter: DeadLetter) -> dict[str, Any]:
    return {
        "entry": letter.entry,
        "id": _task_id(letter),
        "key": letter.key,
        "task": _task_name(letter),
        "queue": letter.queue,
        "tenant": names.show(letter.tenant),
        "reason": letter.reason,
        "attempts": letter.attempts,
        "token": letter.token,
        "at": letter.at,
        "message": _message(letter),
        "raw": {field: names.show(value) for field, value in letter.raw.items()},
    }
