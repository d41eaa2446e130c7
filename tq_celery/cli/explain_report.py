"""How ``tq explain`` answers: as one document, and as text made from it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

from tq_celery.cli import names
from tq_celery.cli.durations import format_age
from tq_celery.cli.policy import policy_line
from tq_celery.cli.reasons import Around, Reason
from tq_celery.states import State
from tq_celery.store.record import NO_DEADLINE
from tq_celery.store.sighting import LOOK_BACK, Ending, Sighting
from tq_celery.store.turn import Turn

__all__ = ["Told", "as_text", "ended", "ended_text", "live", "live_text"]


class Told(NamedTuple):
    """What the answer about a live task is made of; ``task`` is its name, empty if unreadable."""

    around: Around
    config: dict[str, str]
    waits_for: list[Reason]
    task: str
    revoked: bool


def as_text(lines: dict[str, str]) -> str:
    """Return labels and values, aligned; further lines of a value stand below its first."""
    return "\n".join(
        f"{label + ':':<11}{value}".replace("\n", "\n" + " " * 11) for label, value in lines.items()
    )


def live(task_id: str, seen: Sighting, told: Told) -> dict[str, Any]:
    """Return the answer about a live task; times are ms of the server's clock."""
    around, record = told.around, seen.record
    key = seen.place.key.encode()
    return {
        "id": task_id,
        "key": key.decode(),
        "task": told.task,
        "state": str(seen.state or "moving"),
        "queue": seen.place.queue,
        "tenant": names.show(seen.place.tenant),
        "priority": record.priority if record else None,
        "cost": record.cost if record else None,
        "deadline": _moment(record.deadline if record else 0),
        "attempts": record.attempts if record else 0,
        "submitted": _moment(record.submitted if record else 0),
        "due": _moment(seen.due),
        "admitted": _moment(record.admitted if record else 0),
        "dispatched": _moment(seen.dispatched),
        "worker": seen.worker or None,
        "policy": told.config.get("policy"),
        "position": around.turn and _position(around.turn),
        "share": around.turn and _share(around.turn, told.config),
        "of_tenant": {
            "running": around.tenant.running,
            "pending": sum(around.tenant.pending.values()),
            "live": around.tenant.live,
            "max_running": around.tenant.max_running,
            "paused": around.tenant.paused,
        },
        "room": around.room,
        "leader": around.leader.owner,
        "revoked": told.revoked,
        "waits_for": told.waits_for,
        "now": around.now,
    }


def _position(turn: Turn) -> dict[str, Any]:
    return {"before": turn.before, "of_its_tenant": turn.own, "at_least": turn.at_least}


def _share(turn: Turn, config: dict[str, str]) -> dict[str, Any] | None:
    """Return the part of the service that the tenant is due; only a fair policy gives shares."""
    if config.get("between") != "fair":
        return None
    part = turn.weight / turn.weights
    return {
        "weight": turn.weight, "weights": turn.weights, "tenants": turn.tenants, "part": part
    }  # fmt: skip


def live_text(document: dict[str, Any], seen: Sighting, told: Told) -> dict[str, str]:
    """Return the same in words."""
    around = told.around
    since = document["dispatched"] or document["submitted"]
    age = f", for {format_age(max(0, around.now - since) / 1000)}" if since else ""
    by = f" by worker {seen.worker}" if seen.worker else ""
    state = "moving" if seen.state is None else str(seen.state)
    lines = {
        "task": _named(document),
        "state": f"{state} in queue {document['queue']}{by}{age}",
        "tenant": _tenant_line(document),
        "policy": policy_line(told.config),
    }
    if around.turn is not None:
        most = "after more than " if around.turn.at_least else "after "
        count = around.turn.before
        lines["position"] = f"{most}{count} others" if count else "next"
    if document["attempts"]:
        lines["lost"] = f"{document['attempts']} deliveries so far"
    if document["deadline"]:
        lines["deadline"] = _clock(document["deadline"])
    if document["revoked"]:
        lines["revoked"] = "its id is marked as revoked: it ends where it is met"
    waits = "\n".join(each.text for each in told.waits_for)
    lines["waits for"] = waits or _otherwise(seen)
    return lines


def _otherwise(seen: Sighting) -> str:
    if seen.state is State.RUNNING:
        return "nothing: the worker has it"
    return "nothing: it is next, and there is a free slot"


def _tenant_line(document: dict[str, Any]) -> str:
    of, share = document["of_tenant"], document["share"]
    text = f"{document['tenant']}: {of['running']} running, {of['pending']} pending"
    if share:
        text += (
            f"; share {share['part']:.0%} (weight {share['weight']:g} of {share['weights']:g}, "
            f"{share['tenants']} competing)"
        )
    return text


def ended(task_id: str, ending: Ending) -> dict[str, Any]:
    """Return the answer about a task that has ended."""
    return {
        "id": task_id,
        "key": ending.key or None,
        "state": ending.outcome or "ended",
        "queue": ending.queue or None,
        "tenant": names.show(ending.tenant) if ending.tenant else None,
        "worker": ending.worker or None,
        "finished": _moment(ending.finished),
        "reason": ending.reason or None,
        "dead_letter": ending.entry or None,
        "waits_for": [],
    }


def ended_text(document: dict[str, Any], ending: Ending, now: int) -> dict[str, str]:
    """Return the same in words; ``now`` is ms."""
    if not ending.outcome:
        gone = f"it ended; its result is not among the newest {LOOK_BACK}"
        return {"task": document["id"], "state": gone}
    ago = format_age(max(0, now - ending.finished) / 1000)
    by = f" by {ending.worker}" if ending.worker else ""
    lines = {
        "task": document["id"],
        "state": f"{ending.outcome} in queue {ending.queue}{by}, {ago} ago",
        "tenant": str(document["tenant"]),
    }
    if ending.outcome == "dead":
        lines["reason"] = ending.reason or "its dead letter is gone"
        if ending.entry:
            lines["letter"] = f"tq dlq show {ending.entry}"
    lines["waits for"] = "nothing: it has ended"
    return lines


def _named(document: dict[str, Any]) -> str:
    return f"{document['id']} ({document['task']})" if document["task"] else str(document["id"])


def _moment(ms: int) -> int | None:
    """Return ms of the server's clock, None for none."""
    return ms if 0 < ms < NO_DEADLINE else None


def _clock(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
