"""The log lines of a worker: how they name a task, and how Celery's own become JSON.

A task is named by its id, name and tenant, never by its arguments.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from celery._state import get_current_task
from celery.utils.log import ColorFormatter, get_multiprocessing_logger

from tq_celery.inheritance import HEADER
from tq_celery.logs import TASK_FIELDS, JsonLines

__all__ = ["WorkerLines", "task_fields", "write_json"]

#: The loggers to which Celery's worker gives handlers of its own.
_CELERYS = ("", "celery", "celery.task", "celery.redirected")


def task_fields(headers: Any) -> dict[str, Any]:
    """Return the fields that name the task of a message, from its headers or its request."""
    if not isinstance(headers, Mapping):
        return {}
    found = {"task_id": headers.get("id"), "task_name": headers.get("task")}
    options = headers.get(HEADER)
    if isinstance(options, Mapping):
        found["tenant"] = options.get("tenant")
    return {name: value for name, value in found.items() if isinstance(value, str)}


class WorkerLines(JsonLines):
    """The lines of a worker: Celery's and those of tasks name their task too."""

    def fields(self, record: Any) -> dict[str, Any]:
        """Return the fields of the line, and the task that it is about or that writes it."""
        found = super().fields(record)
        if not any(name in found for name in TASK_FIELDS):
            # Celery's own lines carry arguments and results beside the two
            data = getattr(record, "data", None)
            found |= task_fields({"id": data.get("id"), "task": data.get("name")} if data else None)
        if "tenant" not in found:
            task = get_current_task()
            running = task.request.id if task is not None else None
            # a line about another task than the one that runs here is not this one's
            if running and found.get("task_id", running) == running:
                found = task_fields({**vars(task.request), "task": task.name}) | found
        return found


def write_json() -> None:
    """Let the handlers that Celery made write JSON; those of the application stay as they are."""
    loggers = [*map(logging.getLogger, _CELERYS), get_multiprocessing_logger()]
    for handler in (each for logger in loggers for each in logger.handlers):
        if isinstance(handler.formatter, ColorFormatter):
            handler.setFormatter(WorkerLines())
