"""Which queue a message would reach: a scheduled task goes to exactly one."""

from __future__ import annotations

import re
from typing import Any

from tq_celery.errors import OptionError, UnsupportedTaskError

__all__ = ["QueueNames", "check_queue"]

#: Bytes in the longest name of a queue, as in AMQP.
MAX_QUEUE = 255


def check_queue(name: str) -> str:
    """Return the queue's name; raises OptionError when no broker could have such a queue."""
    try:
        if len(name.encode()) <= MAX_QUEUE:
            return name
    except UnicodeEncodeError:
        pass
    shown = name if len(name) <= 32 else name[:32] + "..."
    raise OptionError("queue", shown, f"text of at most {MAX_QUEUE} bytes")


class QueueNames:
    """Finds the queue behind an exchange and a routing key, among the application's queues."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def find(self, exchange: Any, routing_key: str | None, declare: Any) -> str:
        """Return the queue's name.

        Raises UnsupportedTaskError when the message would reach none or several.
        """
        name = getattr(exchange, "name", exchange) or ""
        if not name:
            if not routing_key:
                raise UnsupportedTaskError("the call has neither a queue nor a routing key")
            queue: Any = declare[0] if declare else None
            kind = queue.exchange.type if queue is not None and queue.exchange else "direct"
            if kind == "fanout":
                raise _fan_out(queue.exchange.name)
            return routing_key
        return self._behind(name, getattr(exchange, "type", None), routing_key or "", declare)

    def _behind(self, exchange: str, kind: str | None, routing_key: str, declare: Any) -> str:
        found: dict[str, None] = {}
        queues = [*(declare or ()), *self._app.amqp.queues.values()]
        for queue in queues:
            for source, key in _bindings(queue):
                if source.name != exchange:
                    continue
                kind = kind or source.type
                if source.type == "fanout":
                    raise _fan_out(exchange)
                if source.type == "headers":
                    raise UnsupportedTaskError(
                        f"exchange {exchange!r} routes by headers; name the task's queue instead"
                    )
                if _matches(source.type, key or "", routing_key):
                    found[queue.name] = None
        if kind == "fanout":
            raise _fan_out(exchange)
        if len(found) == 1:
            return next(iter(found))
        reached = "queues " + ", ".join(found) if found else "no queue of task_queues"
        raise UnsupportedTaskError(
            f"exchange {exchange!r} with routing key {routing_key!r} reaches {reached}; "
            "a scheduled task goes to exactly one"
        )


def _fan_out(exchange: str) -> UnsupportedTaskError:
    return UnsupportedTaskError(
        f"exchange {exchange!r} fans out to many queues (Broadcast); "
        "a scheduled task is run by one worker"
    )


def _bindings(queue: Any) -> list[tuple[Any, str]]:
    if queue.bindings:
        return [(b.exchange, b.routing_key) for b in queue.bindings]
    return [(queue.exchange, queue.routing_key)] if queue.exchange else []


def _matches(kind: str, pattern: str, routing_key: str) -> bool:
    if kind != "topic":
        return pattern == routing_key
    words = {"*": r"[^.]+", "#": r".*"}
    regex = r"\.".join(words.get(word, re.escape(word)) for word in pattern.split("."))
    # "#" stands for no word as well, together with its dot.
    regex = regex.replace(r".*\.", r"(?:.*\.)?").replace(r"\..*", r"(?:\..*)?")
    return re.fullmatch(regex, routing_key) is not None
