"""The worker's remote-control commands that revoke also write to the store.

A sender with a ``TQ`` has told the store itself; Flower, ``celery control`` without the
application's module, and other programs only broadcast. Celery's handlers stay as they are and
answer as they do; ours go before them in this worker's mailbox alone, so that the registry of
commands that all applications of a process share is not touched. Writing twice is harmless.
"""

from __future__ import annotations

import logging
from collections import ChainMap
from collections.abc import Callable
from typing import Any

from tq_celery.stopping import REVOKING, stamps_of, task_ids_of
from tq_celery.worker.revocations import Revocations

__all__ = ["hook_panel"]

logger = logging.getLogger("tq_celery.worker")

Handler = Callable[..., Any]


class _Commands(dict[str, Handler]):
    """Ours, so that a mailbox that has them is known."""


def hook_panel(consumer: Any, revocations: Revocations) -> None:
    """Put our handlers before those of the consumer's mailbox, once."""
    for step in consumer.steps:
        node = getattr(getattr(step, "box", None), "node", None)
        maps = getattr(getattr(node, "handlers", None), "maps", ())
        if node is not None and not any(isinstance(each, _Commands) for each in maps):
            handlers = node.handlers
            ours = _Commands({name: _writing(name, handlers, revocations) for name in REVOKING})
            # looked up at each call: an application may register its own command later
            node.handlers = ChainMap(ours, handlers)


def _writing(name: str, handlers: Any, revocations: Revocations) -> Handler:
    def handle(state: Any, **arguments: Any) -> Any:
        try:
            subject = arguments.get(REVOKING[name])
            if subject and name == "revoke_by_stamped_headers":
                revocations.add_stamps(stamps_of(subject))
            elif subject:
                revocations.add(task_ids_of(subject))
        except Exception:
            logger.exception("A revocation could not be noted for scheduled tasks")
        return handlers[name](state, **arguments)

    return handle
