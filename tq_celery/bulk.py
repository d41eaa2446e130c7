"""Submitting many tasks in few round trips.

Each call is built as ``apply_async`` builds it, most of them from a template (see
:mod:`tq_celery.templates`). Signal receivers, ``task-sent`` events, eager mode and a surrounding
task need Celery for every call, and so does tracing.

A batch is sent, the next one is built while the server works, and then its reply is read: memory
and the number of tasks whose outcome is unknown after a failure are bounded by two batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from celery import signals
from celery.canvas import Signature
from kombu.exceptions import OperationalError

from tq_celery import detour, envelope
from tq_celery.effective import current_request
from tq_celery.errors import BulkError, DuplicateTaskError, StoreError, StoreUnavailableError
from tq_celery.store.contract import MAX_BATCH, Receipt, Submission
from tq_celery.store.producer import Results
from tq_celery.submit import collect
from tq_celery.templates import Templates

if TYPE_CHECKING:
    from tq_celery.app import TQ

__all__ = ["Call", "submit_many"]

#: Bytes of messages after which a batch is full, so that one script call stays short.
_BATCH_BYTES = 4 * 1024 * 1024
_NOTHING: Mapping[str, Any] = {}


class Call(NamedTuple):
    """One call: a task, and what ``apply_async`` takes."""

    task: Any
    args: Any = ()
    kwargs: Any = None
    options: Mapping[str, Any] | None = None


class _Batch:
    """Built submissions, with the index of the call that each belongs to."""

    def __init__(self) -> None:
        self.indexes: list[int] = []
        self.submissions: list[Submission] = []
        self.results: Callable[[], Results] | None = None


def submit_many(tq: TQ, calls: Iterable[Any]) -> list[str]:
    """Submit calls in batches of at most 500; see :meth:`tq_celery.TQ.submit_many`."""
    bulk = _Bulk(tq, _each(calls))
    under_way: _Batch | None = None
    while True:
        batch = bulk.build()
        if under_way is not None and not bulk.land(under_way):
            bulk.take_back(batch)
            break
        under_way = None
        if batch.submissions:
            batch.results = tq.producers.start_many(
                batch.submissions, tq.limits, hurried=tq.settings.on_unavailable == "broker"
            )
            under_way = batch
        if bulk.ended:
            if under_way is not None:
                bulk.land(under_way)
            break
    if bulk.errors:
        raise BulkError(bulk.errors, bulk.ids)
    return [each for each in bulk.ids if each is not None]


class _Bulk:
    """One bulk submission: what was built so far, and what became of it."""

    def __init__(self, tq: TQ, calls: Iterator[Any]) -> None:
        self._tq = tq
        self._tasks: Any = tq.app.tasks
        self._calls = calls
        self._templates = Templates(tq)
        self._slow = bool(
            signals.before_task_publish.receivers
            or signals.after_task_publish.receivers
            or signals.task_sent.receivers
            or tq.app.conf.task_send_sent_event
            or tq.app.conf.task_always_eager
            or current_request() is not None
            or tq.tracing is not None
        )
        self.ids: list[str | None] = []
        self.errors: dict[int, Exception] = {}
        #: Whether there are no more calls.
        self.ended = False

    def build(self) -> _Batch:
        """Build the next calls, up to a batch; each fails by itself, and is named."""
        batch, ids, size = _Batch(), self.ids, 0
        submissions, indexes = batch.submissions, batch.indexes
        for _ in range(MAX_BATCH):
            index = len(ids)
            try:
                item = next(self._calls)
            except StopIteration:
                self.ended = True
                break
            except Exception as error:  # noqa: BLE001 - of the caller's generator
                self._fail(index, error)
                self.ended = True
                break
            ids.append(None)
            try:
                found = self._quick(item)
                if found is None:
                    with collect() as built:
                        ids[index] = _apply(item).id
                    submissions += built
                    indexes += [index] * len(built)
                    size += sum(len(each.payload) for each in built)
                    if len(submissions) >= MAX_BATCH:
                        break
                else:
                    ids[index] = found.key.id
                    submissions.append(found)
                    indexes.append(index)
                    size += len(found.payload)
            except Exception as error:  # noqa: BLE001
                self.errors[index] = error
            if size >= _BATCH_BYTES:
                break
        return batch

    def _fail(self, index: int, error: Exception) -> None:
        self.ids.append(None)
        self.errors[index] = error

    def _quick(self, item: Any) -> Submission | None:
        """Return the submission of a call that needs nothing but a template."""
        if self._slow:
            return None
        if type(item) is tuple and 1 <= len(item) <= 4:
            task, args, kwargs, options = (*item, *_DEFAULTS[len(item) :])
        elif isinstance(item, Signature) and not item.get("subtask_type"):
            if item["task"] not in item.app.tasks:
                return None  # sent by name
            task, args, kwargs, options = item.type, item.args, item.kwargs, item.options
        else:
            return None
        return self._templates.fill(task, args or (), kwargs or {}, options or _NOTHING)

    def land(self, batch: _Batch) -> bool:
        """Note what became of a batch; False when the server is away and nothing more is sent."""
        assert batch.results is not None
        try:
            replies = batch.results()
        except StoreUnavailableError as error:
            # Unless nothing was sent, the outcome is unknown, and the same ids may be sent again.
            failed = OperationalError(str(error))
            failed.__cause__ = error
            if not error.undone:
                self._note(batch, [failed] * len(batch.indexes), keep_ids=True)
                return False
            return self._detour(batch, error, failed)
        except StoreError as error:
            self._note(batch, [error] * len(batch.indexes), keep_ids=True)
            return False
        self._note(batch, replies, keep_ids=True)
        return True

    def _detour(self, batch: _Batch, error: StoreUnavailableError, failed: Exception) -> bool:
        """Send to the broker what may go there; False when nothing may."""
        tq, went = self._tq, False
        replies: Results = []
        for each in batch.submissions:
            name = envelope.decode(each.payload).headers["task"]
            rules = tq.routes.rules_of(name, self._tasks.get(name))
            if tq.publisher.on_unavailable(rules) != "broker":
                replies.append(failed)
                continue
            try:
                detour.publish(tq.app, each, ranked=each.priority != tq.default.priority)
            except Exception as refused:  # noqa: BLE001 - of any broker's client
                replies.append(refused)
            else:
                tq.counts.add_unavailable(error)
                replies.append(Receipt("broker", 0))
                went = True
        self._note(batch, replies, keep_ids=False)
        return went

    def _note(self, batch: _Batch, replies: Results, keep_ids: bool) -> None:
        for index, reply in zip(batch.indexes, replies, strict=True):
            if isinstance(reply, Exception):
                self.errors[index] = reply
                unknown = isinstance(reply, OperationalError | StoreError) and keep_ids
                if not (unknown or isinstance(reply, DuplicateTaskError)):
                    self.ids[index] = None

    def take_back(self, batch: _Batch) -> None:
        """Note that a batch which was built is not sent any more."""
        for index in batch.indexes:
            self.errors.setdefault(index, OperationalError("not attempted"))
            self.ids[index] = None


_DEFAULTS: tuple[Any, ...] = (None, (), None, None)


def _each(calls: Iterable[Any]) -> Iterator[Any]:
    if isinstance(calls, Signature):
        if calls.get("subtask_type") != "group":
            raise TypeError("submit_many() takes many calls; put a single signature into a list")
        options = calls.options
        members = iter(calls.tasks)
        return (each.clone(**options) for each in members) if options else members
    return iter(calls)


def _apply(item: Any) -> Any:
    """Send one item as Celery does."""
    if isinstance(item, Signature):
        return item.apply_async()
    if isinstance(item, tuple) and 1 <= len(item) <= 4 and hasattr(item[0], "apply_async"):
        call = Call(*item)
        return call.task.apply_async(call.args, call.kwargs, **dict(call.options or ()))
    raise TypeError(
        f"expected a signature or (task, args, kwargs, options), got {type(item).__name__}"
    )
