"""Celery's request for a scheduled task: who may start it, and how it ended.

An acknowledgement is no outcome. Celery acknowledges after a success, a failure, a retry, an
``Ignore`` and a revocation alike, so :class:`ScheduledRequest` notes the outcome where Celery
decides it and settles with that word when the acknowledgement comes. Without a noted outcome the
delivery is buried: something ended that nobody accounts for.
"""

from __future__ import annotations

import inspect
from functools import partial
from time import monotonic
from typing import Any
from weakref import ref

from billiard.einfo import ExceptionInfo, ExceptionWithTraceback
from celery.exceptions import (
    Ignore,
    Reject,
    Retry,
    TaskRevokedError,
    Terminated,
    TimeLimitExceeded,
    WorkerLostError,
    WorkerShutdown,
    WorkerTerminate,
)
from celery.platforms import EX_FAILURE
from celery.utils.functional import maybe
from celery.worker import state
from celery.worker.request import create_request_cls
from kombu.exceptions import OperationalError

from tq_celery.errors import QueueFullError, StoreError
from tq_celery.logs import Log
from tq_celery.states import Outcome
from tq_celery.task import TQTask, UnsentRetry
from tq_celery.worker.chords import end_chain, part_is_settled
from tq_celery.worker.deliveries import DeliveryTable, Held
from tq_celery.worker.request_info import RequestInfo

__all__ = ["ScheduledRequest", "request_class", "stopping"]

log = Log("tq_celery.worker")

#: What a pool callback gets when the delivery was given back before its slot came.
SKIPPED = (0, None, 0.0)
#: Why the retry of a task could not be submitted, if it may be possible later.
PASSING = (StoreError, QueueFullError, OperationalError)
#: Pause in ms before a delivery that could not finish its retry runs again.
RETRY_DELAY = 1000
#: First and longest pause in ms before a lost delivery runs again; doubles with every loss.
FIRST_BACKOFF, LONGEST_BACKOFF = 100, 10_000


def stopping() -> bool:
    """Whether the worker is shutting down, warm or cold."""
    # The exit code of a warm stop is 0, which equals False: identity decides, as in Celery.
    stop, terminate = state.should_stop, state.should_terminate
    return (stop is not None and stop is not False) or (
        terminate is not None and terminate is not False
    )


def _unwrapped(exc: Any) -> Any:
    return exc.exc if isinstance(exc, ExceptionWithTraceback) else exc


def _outcome_of(exc: Any) -> Outcome:
    """Return how a task ended that raised ``exc``."""
    if isinstance(exc, Retry):
        return Outcome.RETRIED
    if isinstance(exc, Reject):
        return Outcome.REJECTED
    if isinstance(exc, Ignore):
        # Task.replace has sent the replacement and says so in these words.
        return Outcome.REPLACED if str(exc).startswith("Replaced by") else Outcome.IGNORED
    if isinstance(exc, Terminated):
        return Outcome.REVOKED
    return Outcome.FAILED


def _is_unsent_retry(exc: Any, task: Any) -> bool:
    """Tell whether ``task`` wanted another try and could not send it.

    A task that only a route schedules has Celery's own ``retry``, which raises what a task raises
    to reject itself; there the reason has to tell the two apart.
    """
    if isinstance(exc, UnsentRetry) or not isinstance(exc, Reject) or exc.requeue:
        return isinstance(exc, UnsentRetry)
    return not isinstance(task, TQTask) and isinstance(exc.reason, PASSING)


class ScheduledRequest(RequestInfo):
    """Mixed in before Celery's (or the task's own) request class by :func:`request_class`."""

    tq_held: Held
    tq_table: DeliveryTable
    #: Whether the pool calls back in this process, at the moment the slot starts.
    tq_in_process = False
    tq_trace: Any = None
    tq_outcome: Outcome | None = None
    tq_skipped = False
    tq_killed = False

    # -- starting ------------------------------------------------------------------------------

    def execute_using_pool(self, pool: Any, **kwargs: Any) -> Any:
        """Give the task to the pool unless the delivery is no longer ours to start."""
        request: Any = self
        held, table = self.tq_held, self.tq_table
        target: Any = self.tq_run
        args: tuple[Any, ...] = ()
        if self.tq_in_process:
            if held not in table.waiting:
                state.task_ready(request)
                raise TaskRevokedError(request.id)
            if self.tq_suspect():
                self.tq_claim()
                if request.revoked():
                    raise TaskRevokedError(request.id)
                table.unclaim(held)
        else:
            self.tq_claim()
            if self.tq_suspect() and request.revoked():
                raise TaskRevokedError(request.id)
            target = self.tq_trace
            args = (
                request._type, request.id, request._request_dict, request._body,
                request._content_type, request._content_encoding,
            )  # fmt: skip
        hard, soft = request.time_limits
        task = request._task
        try:
            result = pool.apply_async(
                target,
                args=args,
                accept_callback=request.on_accepted,
                timeout_callback=request.on_timeout,
                callback=request.on_success,
                error_callback=request.on_failure,
                soft_timeout=soft or task.soft_time_limit,
                timeout=hard or task.time_limit,
                correlation_id=request.id,
            )
        except Exception:
            log.exception("the pool refused a scheduled task", **self.tq_fields())
            self.tq_return(counted=True)
            raise TaskRevokedError(request.id) from None
        if not self.tq_in_process:
            if result is None:  # the pool is closed
                table.unclaim(held)
            elif hasattr(result, "_write_to"):
                result.scheduled = True
                result.discard = partial(self.tq_discarded, result, result.discard)
        request._apply_result = maybe(ref, result)
        return result

    def tq_suspect(self) -> bool:
        """Whether the longer look for revocation and expiry is worth its time."""
        request: Any = self
        return bool(
            request._expires
            or request.id in state.revoked
            or (state.revoked_stamps and request.stamped_headers)
            or request._already_revoked
        )

    def tq_claim(self) -> None:
        request: Any = self
        if not self.tq_table.claim(self.tq_held):
            state.task_ready(request)
            raise TaskRevokedError(request.id)

    def tq_run(self) -> Any:
        """Run the task in this process; what Celery's trace does not catch becomes a result."""
        request: Any = self
        if self.tq_skipped:
            return SKIPPED
        try:
            return self.tq_trace(
                request._type, request.id, request._request_dict, request._payload, None, None
            )
        except (WorkerShutdown, WorkerTerminate):
            self.tq_return()
            raise
        except SystemExit as exit_:
            try:
                raise WorkerLostError(f"Task exited with {exit_.code!r}") from None
            except WorkerLostError:
                return 1, ExceptionInfo(), 0.0
        except Exception:  # noqa: BLE001 - it travels on as the task's failure
            return 1, ExceptionInfo(), 0.0
        except BaseException:
            # A killed greenlet: by a time limit, a revocation or the end of the process.
            self.tq_killed = True
            raise

    def on_accepted(self, pid: int, time_accepted: float) -> None:
        """A slot takes the task, unless it was given back in the meantime."""
        if self.tq_in_process and not self.tq_table.claim(self.tq_held):
            self.tq_skipped = True
            return
        self.tq_held.started = time_accepted
        try:
            super().on_accepted(pid, time_accepted)  # type: ignore[misc]
        except Exception:
            # The task starts all the same; an event that cannot be sent must not stop it.
            log.exception("noting the start of a scheduled task failed", **self.tq_fields())

    def tq_discarded(self, job: Any, discard: Any) -> None:
        """The prefork pool drops a job, because a lost broker delivers it again. Ours does not.

        A job that is partly or wholly in a child's pipe runs anyway and keeps its place. Of any
        other the claim is taken back, so that it is handed over again.
        """
        if not job._accepted:
            writer = getattr(job, "_writer", None)
            generator = writer() if writer is not None else None
            if generator is not None:
                begun = inspect.getgeneratorstate(generator) != inspect.GEN_CREATED
            else:
                begun = job._write_to is not None
            if begun:
                return
            self.tq_table.unclaim(self.tq_held)
        discard()

    # -- ending --------------------------------------------------------------------------------

    def on_success(self, failed__retval__runtime: Any, **kwargs: Any) -> Any:
        """The slot is free again: the task returned or raised."""
        request: Any = self
        if self.tq_skipped or self.tq_killed:
            state.task_ready(request)
            if self.tq_killed and self.tq_outcome is None:
                self.tq_return()
            return None
        if not failed__retval__runtime[0]:
            self.tq_outcome = Outcome.COMPLETED
        try:
            return super().on_success(failed__retval__runtime, **kwargs)  # type: ignore[misc]
        except Exception as error:  # noqa: BLE001
            self.tq_escaped("success", error)
            return None

    def on_failure(
        self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False
    ) -> Any:
        """The task raised, or its process is gone."""
        request: Any = self
        exc = _unwrapped(exc_info.exception)
        if _is_unsent_retry(exc, request._task) and not request.acknowledged:
            # Celery would reject this try for good.
            state.task_ready(request)
            self.tq_unsent(exc.reason)
            return None
        if isinstance(exc, TimeLimitExceeded) and not return_ok and not self.tq_in_process:
            # The pool calls on_timeout next, which tells backend, errbacks and signals as well;
            # in Celery errbacks then run twice.
            state.task_ready(request)
            return None
        self.tq_outcome = _outcome_of(exc)
        try:
            return super().on_failure(  # type: ignore[misc]
                exc_info, send_failed_event=send_failed_event, return_ok=return_ok
            )
        except MemoryError:
            self.tq_return(counted=True)
            raise
        except Exception as error:  # noqa: BLE001
            self.tq_escaped("failure", error)
            return None

    def on_timeout(self, soft: bool, timeout: float) -> None:
        if not soft:
            self.tq_outcome = Outcome.FAILED
        try:
            super().on_timeout(soft, timeout)  # type: ignore[misc]
        except Exception as error:  # noqa: BLE001
            self.tq_escaped("time limit", error)

    def _success_was_stored(self) -> Any:
        stored = super()._success_was_stored()  # type: ignore[misc]
        if stored:
            request: Any = self
            if not part_is_settled(request.task.backend, request._context, stored.get("result")):
                return False  # it runs again, for the sake of its chord
            self.tq_outcome = Outcome.COMPLETED
        return stored

    def _retry_worker_lost(self, exc: Any, exc_info: Any) -> Any:
        self.tq_outcome = Outcome.RETRIED
        sent = super()._retry_worker_lost(exc, exc_info)  # type: ignore[misc]
        if not sent:
            self.tq_outcome = Outcome.FAILED
        return sent

    def _announce_revoked(self, reason: str, terminated: bool, signum: Any, expired: bool) -> None:
        request: Any = self
        self.tq_outcome = Outcome.EXPIRED if expired else Outcome.REVOKED
        end_chain(request.task.backend, request._context, reason)
        super()._announce_revoked(reason, terminated, signum, expired)  # type: ignore[misc]

    def terminate(self, pool: Any, signal: Any = None) -> None:
        """Note the end before it comes: eventlet's pool lets a task die within the call."""
        request: Any = self
        if request.time_start:
            self.tq_outcome = Outcome.REVOKED
        super().terminate(pool, signal)  # type: ignore[misc]

    def cancel(self, pool: Any, signal: Any = None, emit_retry: bool = True) -> None:
        """Stop for a shutdown, never for a lost broker: that does not hold this delivery."""
        request: Any = self
        if emit_retry and request._task.acks_late:
            return
        if request.time_start and type(pool).__module__.endswith(".solo"):
            # The call comes from a signal in the middle of the task: this ends both. The task
            # would take any other exception for its own failure.
            raise WorkerTerminate(EX_FAILURE)
        try:
            super().cancel(pool, signal, emit_retry=emit_retry)  # type: ignore[misc]
        except NotImplementedError:
            log.warning("a thread cannot be stopped: waiting for the task", **self.tq_fields())

    # -- settling ------------------------------------------------------------------------------

    def acknowledge(self) -> None:
        """Settle with the noted outcome; an early acknowledgement is its own outcome."""
        request: Any = self
        if request.acknowledged:
            return
        request.acknowledged = True
        outcome = self.tq_outcome
        if outcome is None and not request._task.acks_late:
            outcome = Outcome.COMPLETED
        held = self.tq_held
        if outcome is None:
            self.tq_table.bury(held, "acknowledged without an outcome")
        else:
            self.tq_table.settle(held, outcome, held.started, monotonic())

    def reject(self, requeue: bool = False) -> None:
        """Give back (a lost delivery unless the worker is stopping) or settle as rejected."""
        request: Any = self
        if request.acknowledged:
            return
        if requeue:
            self.tq_return(counted=not stopping())
        else:
            self.tq_outcome = self.tq_outcome or Outcome.REJECTED
            self.acknowledge()
        request.send_event("task-rejected", requeue=requeue)

    def tq_return(self, *, counted: bool = False, delay: int = 0) -> None:
        """Give the delivery back, once."""
        request: Any = self
        if request.acknowledged:
            return
        request.acknowledged = True
        held = self.tq_held
        if counted:
            delay = min(FIRST_BACKOFF << min(held.delivery.attempts, 16), LONGEST_BACKOFF)
        self.tq_table.give_back(held, counted=counted, delay=delay)

    def tq_unsent(self, reason: Exception) -> None:
        """Give back a try that could not send the next one: it will run again and decide anew.

        A full queue or a server that is away passes, so that costs no attempt. What will be refused
        every time (too large, a bad option) does: the delivery budget ends it in the dead letters.
        """
        passing = isinstance(reason, PASSING)
        log.warning(
            "retry not sent, task given back", counted=not passing, error=reason,
            **self.tq_fields(),
        )  # fmt: skip
        self.tq_return(counted=not passing, delay=RETRY_DELAY)

    def tq_escaped(self, where: str, error: Exception) -> None:
        """A result backend or a hook of the application raised while an outcome was written."""
        log.error(
            "handling the end of a scheduled task failed",
            exc_info=error,
            end=where,
            **self.tq_fields(),
        )
        self.tq_return(counted=True)


def request_class(
    base: type, task: Any, table: DeliveryTable, pool: Any, hostname: str, eventer: Any, app: Any,
    *, in_process: bool, trace: Any,
) -> type:  # fmt: skip
    """Return the class of requests of ``task``: ours before Celery's before ``base``."""
    stock = create_request_cls(base, task, pool, hostname, eventer, app=app)
    members = {"tq_table": table, "tq_in_process": in_process, "tq_trace": staticmethod(trace)}
    return type("Request", (ScheduledRequest, stock), members)
