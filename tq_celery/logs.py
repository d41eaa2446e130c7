"""Log lines: a constant message with named fields, as text or as JSON.

``log.warning("worker lost", worker=name, deliveries=3)`` reads ``worker lost: worker=w1
deliveries=3`` as text, and as JSON the fields stand beside the message, so that lines can be
counted by their message and searched by their fields. A task is named by ``task_id``,
``task_name`` and ``tenant``, and those three are attributes of the record as well, where Celery's
own task logger puts them. A task's arguments are in no line: they may hold what nobody should read.
"""

from __future__ import annotations

import json
import logging
import time
from types import TracebackType
from typing import Any, Final

__all__ = ["FORMATS", "TASK_FIELDS", "JsonLines", "Log", "TextLines", "formatter"]

#: How lines can be written.
FORMATS: Final = ("text", "json")

#: Fields that name a task.
TASK_FIELDS: Final = ("task_id", "task_name", "tenant")

#: Length of one value in a line, characters.
LONGEST_VALUE = 1000

_Error = BaseException | tuple[type[BaseException], BaseException, TracebackType | None] | bool


class Log:
    """Writes lines of the logger ``name``: a message that never changes, and its fields."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, message: str, /, exc_info: _Error | None = None, **fields: object) -> None:
        """Write a line for whoever looks for a fault."""
        self._write(logging.DEBUG, message, exc_info, fields)

    def info(self, message: str, /, exc_info: _Error | None = None, **fields: object) -> None:
        """Write a line about what is as it should be."""
        self._write(logging.INFO, message, exc_info, fields)

    def warning(self, message: str, /, exc_info: _Error | None = None, **fields: object) -> None:
        """Write a line about what the library deals with by itself."""
        self._write(logging.WARNING, message, exc_info, fields)

    def error(self, message: str, /, exc_info: _Error | None = None, **fields: object) -> None:
        """Write a line about what somebody has to look at."""
        self._write(logging.ERROR, message, exc_info, fields)

    def exception(self, message: str, /, **fields: object) -> None:
        """Write an error with the traceback of the exception being handled."""
        self._write(logging.ERROR, message, True, fields)

    def _write(
        self, level: int, message: str, exc_info: _Error | None, fields: dict[str, object]
    ) -> None:
        if not self._logger.isEnabledFor(level):
            return
        shown = {name: _plain(value) for name, value in fields.items()}
        extra: dict[str, object] = {"event": message, "fields": shown}
        extra |= {name: shown[name] for name in TASK_FIELDS if name in shown}
        template = message
        if shown:
            template += ": " + " ".join(f"{name}=%s" for name in shown)
        self._logger.log(
            level, template, *map(_word, shown.values()),
            exc_info=exc_info, extra=extra, stacklevel=3,
        )  # fmt: skip


class TextLines(logging.Formatter):
    """Time, level and message with its fields."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")


class JsonLines(logging.Formatter):
    """One JSON object per log line, with the fields of :class:`Log` beside the message.

    Of lines that others write it takes the text, and the task where the line has one.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record with its time in ISO 8601, UTC."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "at": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": getattr(record, "event", None) or record.getMessage(),
        }
        line |= self.fields(record)
        if record.exc_info and record.exc_info[0] is not None:
            line["traceback"] = self.formatException(record.exc_info)
        text = json.dumps(line, ensure_ascii=False, default=str)
        return text.encode("utf-8", "backslashreplace").decode()

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """Return what stands beside the message; a field never takes the place of the four."""
        found = getattr(record, "fields", None)
        if isinstance(found, dict):
            return {name: found[name] for name in found if name not in _HEAD}
        return {name: getattr(record, name) for name in TASK_FIELDS if hasattr(record, name)}


_HEAD = frozenset({"at", "level", "logger", "message", "traceback"})


def formatter(word: str) -> logging.Formatter:
    """Return the formatter for one of :data:`FORMATS`."""
    return JsonLines() if word == "json" else TextLines()


def _plain(value: object) -> str | int | float | bool | None:
    """Return ``value`` as JSON can hold it; an error as its type and what it says."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return round(value, 6) if abs(value) < float("inf") else str(value)
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    elif isinstance(value, BaseException):
        value = _error_text(value)
    return str(value)[:LONGEST_VALUE]


def _error_text(error: BaseException) -> str:
    """Return type and message; an error of the application's may fail to tell its own."""
    kind = type(error).__name__
    try:
        return f"{kind}: {error}"
    except Exception:  # noqa: BLE001 - a log line must not end what it tells of
        return kind


def _word(value: object) -> str:
    """Return ``value`` as one word of a line: quoted where it would not end or could be two."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    if not isinstance(value, str):
        return str(value)
    if value and value.isprintable() and not any(each in value for each in ' "='):
        return value
    return json.dumps(value, ensure_ascii=not value.isprintable())
