"""The worker's remote-control commands that revoke also write to the store.

A sender with a ``TQ`` has told the store itself; Flower, ``celery control`` without the
application's module, and other programs only broadcast. Celery's handlers stay as they are and
answer as they do; ours go before them in this worker's mailbox alone. Writing twice is harmless.
"""

from __future__ import annotations

from typing import Any

from tq_celery.logs import Log
from tq_celery.stopping import REVOKING, stamps_of, task_ids_of
from tq_celery.worker.mailbox import Handler, put_before
from tq_celery.worker.revocations import Revocations

__all__ = ["hook_panel"]

log = Log("tq_celery.worker")


def hook_panel(consumer: Any, revocations: Revocations) -> None:
    """Put our handlers before those of the consumer's mailbox, once."""
    put_before(
        consumer,
        "panel",
        lambda handlers: {name: _writing(name, handlers, revocations) for name in REVOKING},
    )


def _writing(name: str, handlers: Any, revocations: Revocations) -> Handler:
    def handle(state: Any, **arguments: Any) -> Any:
        try:
            subject = arguments.get(REVOKING[name])
            if subject and name == "revoke_by_stamped_headers":
                revocations.add_stamps(stamps_of(subject))
            elif subject:
                revocations.add(task_ids_of(subject))
        except Exception:
            log.exception("a revocation could not be noted for scheduled tasks")
        return handlers[name](state, **arguments)

    return handle
