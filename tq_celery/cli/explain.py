"""``tq explain``: where one task is, and what it waits for."""

from __future__ import annotations

import json

import click

from tq_celery.cli.explain_report import Told, as_text, ended, ended_text, live, live_text
from tq_celery.cli.groups import CommandError, TQCommand
from tq_celery.cli.output import print_json
from tq_celery.cli.reasons import Around, reasons, room_of
from tq_celery.cli.session import Session, with_session
from tq_celery.states import State
from tq_celery.store.sighting import Sighting, Sightings
from tq_celery.store.turn import Turns

__all__ = ["explain"]

#: Submitted tasks that are counted before one.
_MOST_SUBMITTED = 10_000


@click.command(
    cls=TQCommand,
    examples=(
        "tq explain 1f0c9a3e-6f0e-4a53-9d0f-2f6f5f4f2c11",
        "tq explain 1f0c9a3e-6f0e-4a53-9d0f-2f6f5f4f2c11 --json",
    ),
)
@click.argument("task_id", metavar="TASK_ID")
@with_session
def explain(session: Session, task_id: str) -> None:
    """Say where a task is and what it waits for.

    For a pending task that is its position under the policy, as it would be served if nothing else
    came, and its tenant's share. For one that has ended, how: as far as the results stream goes
    back.
    """
    if not task_id:
        raise CommandError("TASK_ID is empty")
    look = _Look(session)
    seen = look.sightings.find(task_id)
    if seen is not None:
        told = look.around(task_id, seen)
        document = live(task_id, seen, told)
        text = live_text(document, seen, told)
    else:
        ending = look.sightings.ended(task_id)
        if ending is None:
            raise CommandError(_unknown(look, task_id))
        document = ended(task_id, ending)
        text = ended_text(document, ending, session.inspector.now())
    if session.json:
        print_json(document)
    else:
        click.echo(as_text(text))


class _Look:
    """The readers of one answer; they share the session's connection."""

    def __init__(self, session: Session) -> None:
        self.session, self.inspector = session, session.inspector
        client, settings = self.inspector.client, session.settings
        self.sightings = Sightings(client, settings.namespace, settings=settings)
        self.turns = Turns(client, settings.namespace, settings=settings)

    def around(self, task_id: str, seen: Sighting) -> Told:
        """Read what surrounds a task."""
        queue, tenant = seen.place.queue, seen.place.tenant
        config, workers = self.inspector.config(), self.inspector.workers()
        queues = self.inspector.queues(workers)
        turn, before = None, 0
        if seen.state is State.PENDING and not seen.outdated:
            fair = config.get("between") == "fair"
            turn = self.turns.turn(queue, tenant, seen.member, seen.score, fair)
        if seen.state is State.SUBMITTED:
            before = self.sightings.submitted_before(seen.member, _MOST_SUBMITTED)
        most = config.get("max_running")
        around = Around(
            now=self.inspector.now(),
            leader=self.inspector.leader(),
            tenant=self.inspector.describe([tenant])[0],
            queue=next((each for each in queues if each.queue == queue), None),
            workers=workers,
            room=room_of(queue, workers, queues),
            max_running=int(most) if most else None,
            running=sum(each.dispatched + each.running for each in queues),
            turn=turn,
            before=before,
        )
        task, revoked = self._task_name(seen.place.key.encode()), self.sightings.revoked(task_id)
        return Told(around, config, reasons(seen, around), task, revoked)

    def _task_name(self, key: bytes) -> str:
        """Return the task's name from its message, empty when that cannot be read."""
        try:
            name = json.loads(self.sightings.message(key) or b"{}")["headers"]["task"]
        except (ValueError, KeyError, TypeError):
            return ""
        return str(name)


def _unknown(look: _Look, task_id: str) -> str:
    namespace = look.session.settings.namespace
    if look.sightings.revoked(task_id):
        return (
            f"no such task in namespace {namespace!r}: {task_id} is marked as revoked and ends "
            "when it comes"
        )
    return (
        f"no such task in namespace {namespace!r}: {task_id} was not submitted there, or it ended "
        "and is forgotten"
    )
