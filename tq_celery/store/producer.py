"""The producer's side of the Redis store: submit, one by one or in bulk."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from tq_celery.errors import DuplicateTaskError, PayloadTooLargeError, QueueFullError
from tq_celery.store.base import RedisPart, chunks
from tq_celery.store.contract import Limits, Receipt, Submission
from tq_celery.store.scripts import SCRIPTS, call_many

__all__ = ["RedisProducer"]

_COST_PRIORITY = struct.Struct(">dB")


def _moment(relative: int | None, absolute: int | None) -> str:
    if relative is not None:
        return f"+{relative}"
    return "" if absolute is None else str(absolute)


def _bound(limit: int | None) -> int | str:
    return "" if limit is None else limit


def _arguments(task: Submission, limits: Limits) -> tuple[Any, ...]:
    """Return the submit script's arguments; raises PayloadTooLargeError."""
    if limits.payload is not None and len(task.payload) > limits.payload:
        raise PayloadTooLargeError(task.key.id, len(task.payload), limits.payload)
    parent = task.parent
    return (
        task.key.encode(),
        task.digest,
        task.payload,
        task.queue,
        task.tenant,
        _COST_PRIORITY.pack(task.cost, task.priority),
        _moment(task.deadline_in, task.deadline),
        _moment(task.delay, task.due),
        parent.entry if parent else "",
        parent.queue if parent else "",
        parent.epoch if parent else "",
        task.supersedes.value,
        _bound(limits.namespace),
        _bound(limits.queue),
        _bound(limits.tenant),
    )


def _receipt(task: Submission, limits: Limits, reply: Sequence[Any]) -> Receipt:
    """Return the script's reply as a receipt, or raise the refusal it stands for."""
    status, at, scope = reply[0].decode(), reply[1], reply[2]
    if status == "duplicate":
        raise DuplicateTaskError(task.key.id)
    if status == "full":
        word = scope.decode()
        name = {"queue": task.queue, "tenant": task.tenant.decode(errors="replace")}.get(word, "")
        raise QueueFullError(word, name, getattr(limits, word))
    return Receipt(status, at)


class RedisProducer(RedisPart):
    """Implements :class:`~tq_celery.store.contract.ProducerStore`."""

    def submit(self, submission: Submission, limits: Limits) -> Receipt:
        return _receipt(submission, limits, self._call("submit", *_arguments(submission, limits)))

    def submit_many(
        self, submissions: Sequence[Submission], limits: Limits
    ) -> list[Receipt | Exception]:
        results: list[Receipt | Exception] = []
        for chunk in chunks(submissions):
            results += self._submit_chunk(chunk, limits)
        return results

    def _submit_chunk(
        self, chunk: Sequence[Submission], limits: Limits
    ) -> list[Receipt | Exception]:
        slots: list[Receipt | Exception | None] = []
        calls: list[tuple[Any, ...]] = []
        for task in chunk:
            try:
                calls.append(_arguments(task, limits))
                slots.append(None)
            except PayloadTooLargeError as error:
                slots.append(error)
        replies = iter(call_many(self.client, SCRIPTS["submit"], self._prefix, calls))
        results: list[Receipt | Exception] = []
        for task, slot in zip(chunk, slots, strict=True):
            if slot is not None:
                results.append(slot)
                continue
            reply = next(replies)
            try:
                results.append(
                    reply if isinstance(reply, Exception) else _receipt(task, limits, reply)
                )
            except (DuplicateTaskError, QueueFullError) as error:
                results.append(error)
        return results
