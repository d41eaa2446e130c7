"""Writes to the result backend how a task ended that ended outside a worker.

A task that is buried by recovery, or revoked or expired while it waits, must still end its
caller's ``get()``, its chord, its chain and its errbacks. The scheduler has no application code, so
it leaves an obituary and the next worker of the queue writes it here, without a pool slot.
"""

from __future__ import annotations

from typing import Any

from celery import signals
from celery.app.task import Context
from celery.exceptions import NotRegistered
from kombu.serialization import loads, prepare_accept_content

from tq_celery import envelope
from tq_celery.errors import TQError
from tq_celery.logs import Log
from tq_celery.states import Outcome
from tq_celery.store.contract import Obituary
from tq_celery.store.record import TaskKey
from tq_celery.worker.chords import end_chain

__all__ = ["UNKNOWN_TASK", "DeadTaskError", "write_obituary"]

log = Log("tq_celery.worker")

#: How the reason begins when a worker does not know the task; its name follows.
UNKNOWN_TASK = "unknown task "


class DeadTaskError(TQError):
    """The task was moved to the dead-letter stream; the text is the reason."""


def write_obituary(app: Any, obituary: Obituary, hostname: str, eventer: Any) -> None:
    """Record the state of the task in ``obituary`` as Celery would have; raises what that raises.

    Without a readable message the state is written under the task's id alone: ``get()`` ends, and
    there is nothing that could name a chord or an errback.
    """
    context = _context(app, obituary, hostname)
    if context is None:
        return
    task = app.tasks.get(context.task)
    backend = task.backend if task is not None else app.backend
    ignore = context.ignore_result
    if ignore is None and task is not None:
        ignore = task.ignore_result
    store = not ignore or bool(task is not None and task.store_errors_even_if_ignored)
    if obituary.outcome in (Outcome.REVOKED, Outcome.EXPIRED):
        reason = obituary.reason or obituary.outcome.value
        end_chain(backend, context, reason)
        backend.mark_as_revoked(context.id, reason, request=context, store_result=store)
        event = {"type": "task-revoked", "terminated": False, "signum": None,
                 "expired": obituary.outcome is Outcome.EXPIRED}  # fmt: skip
        if task is not None:
            signals.task_revoked.send(
                sender=task, request=context, terminated=False, signum=None,
                expired=obituary.outcome is Outcome.EXPIRED,
            )  # fmt: skip
    else:
        error = _error(obituary.reason)
        backend.mark_as_failure(context.id, error, request=context, store_result=store)
        event = {"type": "task-failed", "exception": repr(error), "traceback": None}
        if task is not None:
            signals.task_failure.send(
                sender=task, task_id=context.id, exception=error, args=context.args,
                kwargs=context.kwargs, traceback=None, einfo=None,
            )  # fmt: skip
    if eventer is not None and eventer.enabled and (task is None or task.send_events):
        try:
            eventer.send(event.pop("type"), uuid=context.id, **event)
        except Exception:
            log.exception("the event of an obituary could not be sent", task_id=context.id)


def _error(reason: str) -> Exception:
    """Return what the caller's ``get()`` raises: Celery's own error where Celery has one."""
    if reason.startswith(UNKNOWN_TASK):
        unknown: Exception = NotRegistered(reason.removeprefix(UNKNOWN_TASK))
        return unknown
    return DeadTaskError(reason or "dead")


def _context(app: Any, obituary: Obituary, hostname: str) -> Context | None:
    """Return the request's context, or ``None`` when not even the id is known."""
    try:
        task_id = TaskKey.decode(obituary.key).id
    except ValueError:
        log.error("an obituary has no readable key", queue=obituary.queue)
        return None
    fields: dict[str, Any] = {"id": task_id, "task": None}
    if obituary.payload is not None:
        try:
            message = envelope.decode(obituary.payload)
            fields |= message.headers
            properties = message.properties
            fields |= {
                "reply_to": properties.get("reply_to"),
                "correlation_id": properties.get("correlation_id"),
                "delivery_info": {"exchange": "", "routing_key": obituary.queue, "priority": None,
                                  "redelivered": True},
            }  # fmt: skip
            accept = prepare_accept_content(app.conf.accept_content)
            args, kwargs, embed = loads(
                message.body, message.content_type, message.content_encoding, accept=accept
            )
            fields |= {"args": args, "kwargs": kwargs, **(embed or {})}
        except Exception as error:  # noqa: BLE001 - the sender's bytes; the id is enough
            log.warning("the message of an obituary cannot be read", task_id=task_id, error=error)
    fields |= {"id": task_id, "hostname": hostname, "called_directly": False}
    return Context(fields)


def obituary_fields(obituary: Obituary) -> dict[str, Any]:
    """Return the fields of a log line about ``obituary``."""
    try:
        task_id = TaskKey.decode(obituary.key).id
    except ValueError:
        return {"queue": obituary.queue}
    return {"queue": obituary.queue, "task_id": task_id}
