"""The producer's side of the Redis store: submit, one task or a batch in one script call."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from tq_celery.errors import DuplicateTaskError, LateError, PayloadTooLargeError, QueueFullError
from tq_celery.store.base import RedisPart, chunks
from tq_celery.store.contract import Limits, Receipt, Submission

__all__ = ["RedisProducer", "Results", "arguments", "joined", "results", "without_too_large"]

#: What became of each task of a batch, in order.
Results = list[Receipt | Exception]

_COST_PRIORITY = struct.Struct(">dB")


def _moment(relative: int | None, absolute: int | None) -> str:
    if relative is not None:
        return f"+{relative}"
    return "" if absolute is None else str(absolute)


def _parent(task: Submission) -> str:
    token = task.parent
    return f"{task.supersedes.value}/{token.encode()}" if token is not None else ""


def arguments(tasks: Sequence[Submission], limits: Limits) -> list[Any]:
    """Return the submit script's arguments for a batch."""
    bounds = (limits.namespace, limits.queue, limits.tenant, limits.not_after)
    listed: list[Any] = ["" if bound is None else bound for bound in bounds]
    for task in tasks:
        listed += (
            task.key.encode(),
            task.digest + task.payload,
            task.queue,
            task.tenant,
            _COST_PRIORITY.pack(task.cost, task.priority),
            _moment(task.deadline_in, task.deadline),
            _moment(task.delay, task.due),
            _parent(task),
        )
    return listed


def results(tasks: Sequence[Submission], limits: Limits, reply: Sequence[Any]) -> Results:
    """Return the script's reply as receipts and refusals; raises LateError."""
    word, at = reply[0], reply[1]
    if word == b"late":
        raise LateError(at)
    accepted = Receipt("accepted", at)
    return [
        accepted if each == b"accepted" else _result(task, limits, each, at)
        for task, each in zip(tasks, reply[2], strict=True)
    ]


def _result(task: Submission, limits: Limits, word: bytes, at: int) -> Receipt | Exception:
    status, _, scope = word.decode().partition(" ")
    if status == "duplicate":
        return DuplicateTaskError(task.key.id)
    if status == "full":
        name = {"queue": task.queue, "tenant": task.tenant.decode(errors="replace")}.get(scope, "")
        return QueueFullError(scope, name, getattr(limits, scope))
    return Receipt(status, at)


def without_too_large(
    tasks: Sequence[Submission], limits: Limits
) -> tuple[Sequence[Submission], dict[int, Exception]]:
    """Return the tasks to send, and by its place the refusal of each whose payload is too long."""
    most = limits.payload
    if most is None or all(len(task.payload) <= most for task in tasks):
        return tasks, {}
    refused: dict[int, Exception] = {
        index: PayloadTooLargeError(task.key.id, len(task.payload), most)
        for index, task in enumerate(tasks)
        if len(task.payload) > most
    }
    return [task for index, task in enumerate(tasks) if index not in refused], refused


def joined(taken: Results, refused: dict[int, Exception]) -> Results:
    """Put each refusal of :func:`without_too_large` into its place."""
    for index, refusal in refused.items():
        taken.insert(index, refusal)
    return taken


class RedisProducer(RedisPart):
    """Implements :class:`~tq_celery.store.contract.ProducerStore`."""

    def submit(self, submission: Submission, limits: Limits) -> Receipt:
        size, most = len(submission.payload), limits.payload
        if most is not None and size > most:
            raise PayloadTooLargeError(submission.key.id, size, most)
        alone = (submission,)
        (result,) = results(alone, limits, self._call("submit", *arguments(alone, limits)))
        if isinstance(result, Exception):
            raise result
        return result

    def submit_many(self, submissions: Sequence[Submission], limits: Limits) -> Results:
        found: Results = []
        for chunk in chunks(submissions):
            sent, refused = without_too_large(chunk, limits)
            taken: Results = []
            if sent:
                taken = results(sent, limits, self._call("submit", *arguments(sent, limits)))
            found += joined(taken, refused)
        return found
