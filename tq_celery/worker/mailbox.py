"""Commands of ours before Celery's in one worker's mailbox.

The registry of commands that all applications of a process share is not touched.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["Handler", "put_before"]

Handler = Callable[..., Any]


class _Commands(dict[str, Handler]):
    """The commands that one caller put in; ``by`` names it."""

    def __init__(self, by: str, commands: Mapping[str, Handler]) -> None:
        super().__init__(commands)
        self.by = by


def put_before(consumer: Any, by: str, make: Callable[[Any], Mapping[str, Handler]]) -> None:
    """Put the commands of ``by`` before those of the consumer's mailbox, once.

    Celery calls its steps again after every loss of the broker, with the same mailbox. ``make``
    gets what answered until now, to be looked up at each call: an application may register its own
    command later.
    """
    for step in consumer.steps:
        node = getattr(getattr(step, "box", None), "node", None)
        if node is None:
            continue
        maps = getattr(node.handlers, "maps", [node.handlers])
        if not any(isinstance(each, _Commands) and each.by == by for each in maps):
            node.handlers = ChainMap(_Commands(by, make(node.handlers)), *maps)
