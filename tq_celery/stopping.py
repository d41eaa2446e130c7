"""Stopping scheduled tasks: what ``app.control`` does for them beside what it always did.

A revocation of Celery's is a broadcast, kept in the memory of the workers that hear it. A scheduled
task waits in the store, where no worker has it, so the store is told as well: it removes what
waits, remembers ids that come later, and asks no worker. Everything that revokes goes through
``Control.broadcast`` (``revoke``, ``terminate``, ``revoke_by_stamped_headers``, the methods of
results, ``celery control``, Flower), which is why that is the one method hooked for it.

The store is told first: a broadcast that waits for replies gives what waits time to start. A store
that has not answered within a second is told after the broadcast, so that Celery's part is never
held up for long, and is done whatever happens to ours. If that fails too, StoreUnavailableError
says so, or the log does with ``tq_on_unavailable = "broker"``. Workers that heard the broadcast
write it to the store as well, as soon as they can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, TypeVar

from celery.utils.functional import maybe_list
from celery.utils.imports import symbol_by_name

from tq_celery.errors import StoreUnavailableError, TQError
from tq_celery.logs import Log
from tq_celery.store.contract import MAX_BATCH, StoppingStore
from tq_celery.store.stopping import RedisStopping

if TYPE_CHECKING:
    from tq_celery.app import TQ

__all__ = [
    "REVOKING",
    "ControlFactory",
    "Stopping",
    "hook_control",
    "remembered",
    "stamps_of",
    "task_ids_of",
]

log = Log("tq_celery.stopping")

Reply = TypeVar("Reply")

#: Seconds before the first repeat of a call that found the store away; doubles.
FIRST_PAUSE = 0.05
#: Longest wait for the store before a broadcast, seconds.
FIRST_TRY = 1.0
_HALF_DONE = (
    "the workers were told, but the scheduler's server did not answer: scheduled tasks that no "
    "worker has yet may still run"
)
#: Celery's commands that revoke, and the argument that says what.
REVOKING = {
    "revoke": "task_id",
    "terminate": "task_id",
    "revoke_by_stamped_headers": "headers",
}


class Stopping:
    """Revokes and purges the scheduled tasks of one application; also ``tq.stopping``.

    Safe among threads, greenlets and after a fork. Raises StoreUnavailableError when the store did
    not answer within ``tq_publish_timeout``; every call may be repeated.
    """

    def __init__(self, tq: TQ) -> None:
        self._tq = tq

    @property
    def needed(self) -> bool:
        """Whether scheduled tasks can exist: never where every task runs at its call."""
        return not self._tq.app.conf.task_always_eager

    def revoke(self, ids: Iterable[str]) -> dict[str, str]:
        """Revoke tasks by id; atomic for each of them.

        Returns by id ``revoked`` (it waited, and is settled now), ``dispatched`` (a worker has it
        and decides) or ``unknown`` (remembered for as long as Celery remembers a revocation).
        """
        asked = list(dict.fromkeys(ids))
        return self._repeat(partial(_revoke, asked), self._tq.settings.publish_timeout)

    def revoke_stamped(self, stamps: Mapping[str, Sequence[str]]) -> int:
        """Revoke tasks that carry one of the values under one of the headers.

        Returns how many were removed; those that come later end when a worker gets them.
        """
        return self._repeat(partial(_revoke_stamped, stamps), self._tq.settings.publish_timeout)

    def purge(self, queues: Sequence[str] | None = None, *, tenant: bytes | None = None) -> int:
        """Remove what waits in ``queues`` (all without), and return how many tasks that was.

        That is everything submitted, delayed, pending and dispatched that no worker has read. Each
        ends as REVOKED. Atomic in steps of at most 500 tasks; what is submitted meanwhile may stay.
        Each step has ``tq_publish_timeout``, and none is repeated: the number is true.
        """
        store = RedisStopping.open_stopping(self._tq.settings)
        with closing(store.client):
            return store.purge(queues, tenant=tenant)

    def _repeat(self, step: Callable[[StoppingStore], Reply], total: float) -> Reply:
        """Do ``step`` on a connection of its own, and again after failures for ``total`` s."""
        settings = replace(self._tq.settings, publish_timeout=total)
        give_up, pause = monotonic() + total, FIRST_PAUSE
        while True:
            try:
                store = RedisStopping.open_stopping(settings)
                with closing(store.client):
                    return step(store)
            except StoreUnavailableError:
                if monotonic() + pause > give_up:
                    raise
            sleep(pause)
            pause *= 2

    def before(self, command: str, arguments: Mapping[str, Any]) -> Callable[[], None]:
        """Do for scheduled tasks what the broadcast of ``command`` asks of workers.

        Never raises. Returns what is left to do after the broadcast: nothing, unless the store did
        not answer within :data:`FIRST_TRY` or refused; then it is tried again, and may raise.
        """
        subject = arguments.get(REVOKING[command])
        if not subject or not self.needed:
            return _nothing
        step: Callable[[StoppingStore], object]
        if command == "revoke_by_stamped_headers":
            step = partial(_revoke_stamped, stamps_of(subject))
        else:
            step = partial(_revoke, task_ids_of(subject))
        try:
            self._repeat(step, min(FIRST_TRY, self._tq.settings.publish_timeout))
        except TQError:
            return partial(self._after, command, step)
        return _nothing

    def _after(self, command: str, step: Callable[[StoppingStore], object]) -> None:
        settings = self._tq.settings
        try:
            self._repeat(step, settings.publish_timeout)
        except StoreUnavailableError as error:
            if settings.on_unavailable == "broker":
                # the application shall go on without the store, as with what it sends
                log.error(_HALF_DONE, command=command, error=error)
                return
            raise StoreUnavailableError(
                command, f"{_HALF_DONE}; repeat the call ({error})"
            ) from error


class ScheduledControl:
    """Mixed in before the application's own control class by :func:`hook_control`."""

    app: Any

    def broadcast(self, command: str, arguments: Any = None, *args: Any, **options: Any) -> Any:
        """Broadcast a command; one that revokes is carried out on scheduled tasks as well.

        When the broker is away its error comes through, and what waits is revoked all the same.
        Raises StoreUnavailableError, after the broadcast, when the scheduler's server is away.
        """
        told: Any = super()
        stopping = _stopping(self.app) if command in REVOKING else None
        if stopping is None:
            return told.broadcast(command, arguments, *args, **options)
        left_to_do = stopping.before(command, {**(arguments or {}), **options})
        try:
            return told.broadcast(command, arguments, *args, **options)
        finally:
            left_to_do()

    def purge(self, connection: Any = None) -> int:
        """Discard all waiting tasks of the queues that workers of this application consume.

        Returns how many there were, those of the broker and scheduled ones together. Raises
        StoreUnavailableError, after the broker's, when the scheduler's server is away.
        """
        stock: Any = super()
        count: int = stock.purge(connection)
        stopping = _stopping(self.app)
        if stopping is None or not stopping.needed:
            return count
        try:
            return count + stopping.purge(list(self.app.amqp.queues.consume_from))
        except StoreUnavailableError as error:
            raise StoreUnavailableError(
                "purge",
                f"{count} tasks of the broker were discarded, but the scheduler's server did not "
                f"answer: scheduled tasks may still be there; repeat the call ({error})",
            ) from error

    discard_all = purge


class ControlFactory:
    """Makes the control of an application; stands in ``app.control_cls`` and travels with it."""

    def __init__(self, original: Any) -> None:
        self.original = original

    def __call__(self, *args: Any, **options: Any) -> Any:
        return _hooked(symbol_by_name(self.original))(*args, **options)


def hook_control(app: Any) -> None:
    """Make ``app.control`` stop scheduled tasks too; what it is otherwise stays."""
    if not isinstance(app.control_cls, ControlFactory):  # which a pickled application brings
        app.control_cls = ControlFactory(app.control_cls)
    made = vars(app).get("control")
    if made is not None:
        made.__class__ = _hooked(type(made))


def task_ids_of(subject: Any) -> list[str]:
    """Return the ids that Celery's ``task_id`` argument stands for: one, or a collection."""
    return [str(each) for each in maybe_list(subject)]


def stamps_of(subject: Any) -> dict[str, list[str]]:
    """Return the values by header of Celery's ``headers`` argument: a mapping, or ``k=v`` texts."""
    if not isinstance(subject, Mapping):
        pairs = (str(each).partition("=") for each in maybe_list(subject))
        found: dict[str, list[str]] = {}
        for header, _, value in pairs:
            found.setdefault(header, []).append(value)
        return found
    return {
        str(header): [str(value) for value in maybe_list(values) or ()]
        for header, values in subject.items()
    }


def remembered() -> int:
    """Return how long a revocation is remembered, ms: as long as Celery's workers would."""
    # Loads Celery's worker, which a process that only sends does not need.
    from celery.worker.state import REVOKE_EXPIRES

    return int(REVOKE_EXPIRES * 1000)


def _nothing() -> None:
    return None


def _revoke(ids: Sequence[str], store: StoppingStore) -> dict[str, str]:
    found: dict[str, str] = {}
    for start in range(0, len(ids), MAX_BATCH):
        found |= store.revoke(ids[start : start + MAX_BATCH], expires=remembered())
    return found


def _revoke_stamped(stamps: Mapping[str, Sequence[str]], store: StoppingStore) -> int:
    return store.revoke_stamped(stamps, expires=remembered())


def _stopping(app: Any) -> Stopping | None:
    tq = vars(app).get("tq")
    return None if tq is None else tq.stopping


def _hooked(original: type[Any]) -> type[Any]:
    if issubclass(original, ScheduledControl):
        return original
    return type(original.__name__, (ScheduledControl, original), {})
