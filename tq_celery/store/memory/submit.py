"""Submit: a task in, with the checks that make a repeat harmless."""

from __future__ import annotations

from collections.abc import Sequence

from tq_celery.errors import DuplicateTaskError, LateError, PayloadTooLargeError, QueueFullError
from tq_celery.states import Outcome
from tq_celery.store.contract import Limits, Receipt, Submission
from tq_celery.store.memory.base import Base
from tq_celery.store.memory.state import IngressEntry
from tq_celery.store.record import NO_DEADLINE, Record, pack_delayed, pack_record

__all__ = ["Submit"]


class Submit(Base):
    """The producer's part."""

    def submit(self, submission: Submission, limits: Limits) -> Receipt:
        """Take one task, or say why not; see the contract."""
        ns, key, queue = self.ns, submission.key.encode(), submission.queue
        size = len(submission.payload)
        if limits.payload is not None and size > limits.payload:
            raise PayloadTooLargeError(submission.key.id, size, limits.payload)
        if limits.not_after is not None and ns.now > limits.not_after:
            raise LateError(ns.now)
        seen = self._seen(key)
        if seen is not None:
            ns.count("repeated", queue)
            # A second run of a superseded parent repeats its retry: the first one stands.
            if seen == submission.digest or submission.parent is not None:
                return Receipt("repeat", ns.now)
            raise DuplicateTaskError(submission.key.id)
        parent = submission.parent
        if parent is not None and self._current(parent) is None:
            return Receipt("stale", ns.now)
        self._check_limits(queue, submission.tenant, limits)

        ns.payload[key] = (submission.digest, submission.payload)
        ns.count("accepted", queue)
        ns.live_of[submission.tenant] += 1
        ns.queues.add(queue)
        self._enter(submission, key)
        if parent is not None:
            ns.superseded[parent.queue][parent.entry] = submission.supersedes
        return Receipt("accepted", ns.now)

    def submit_many(
        self, submissions: Sequence[Submission], limits: Limits
    ) -> list[Receipt | Exception]:
        """Submit each by itself; a refusal stands in the place of its receipt."""
        receipts: list[Receipt | Exception] = []
        for submission in submissions:
            try:
                receipts.append(self.submit(submission, limits))
            except (DuplicateTaskError, PayloadTooLargeError, QueueFullError) as refusal:
                receipts.append(refusal)
        return receipts

    def _seen(self, key: bytes) -> bytes | None:
        """Return the digest under which the key was taken before."""
        stored = self.ns.payload.get(key)
        return self.ns.done_digest(key) or (stored[0] if stored else None)

    def _check_limits(self, queue: str, tenant: bytes, limits: Limits) -> None:
        ns = self.ns
        waiting = {name: self._waiting(name) for name in ns.queues | {queue}}
        if limits.namespace is not None and sum(waiting.values()) >= limits.namespace:
            raise QueueFullError("namespace", self.namespace, limits.namespace)
        if limits.queue is not None and waiting[queue] >= limits.queue:
            raise QueueFullError("queue", queue, limits.queue)
        waits = ns.live_of[tenant] - ns.running_of[tenant]
        if limits.tenant is not None and waits >= limits.tenant:
            raise QueueFullError("tenant", tenant.decode(errors="replace"), limits.tenant)

    def _waiting(self, queue: str) -> int:
        words = ("submitted", "delayed", "pending")
        return sum(self.ns.counters[word, queue] for word in words)

    def _enter(self, submission: Submission, key: bytes) -> None:
        """Write the ingress entry, or the delayed member when the task is not due.

        One whose id is marked as revoked ends here.
        """
        ns, queue, tenant = self.ns, submission.queue, submission.tenant
        deadline = submission.deadline
        if submission.deadline_in is not None:
            deadline = ns.now + submission.deadline_in
        due = submission.due or 0
        if submission.delay is not None:
            due = ns.now + submission.delay
        record = pack_record(
            Record(
                ms=0,
                seq=0,
                cost=submission.cost,
                priority=submission.priority,
                deadline=NO_DEADLINE if deadline is None else deadline,
                submitted=ns.now,
                admitted=0,
                attempts=0,
                paid=0,
                key=key,
            )
        )
        if ns.revoked.get(submission.key.id, 0) > ns.now:
            self._end_outside(queue, tenant, record, Outcome.REVOKED, "revoked")
            return
        ns.ids[submission.key.id] = (key, queue, tenant)
        if due > ns.now:
            ns.delayed.add(pack_delayed(queue, tenant, record), due)
            ns.count("delayed", queue)
            ns.wake("delayed")
        else:
            ns.ingress[ns.entry_id()] = IngressEntry(queue, tenant, record)
            ns.count("submitted", queue)
