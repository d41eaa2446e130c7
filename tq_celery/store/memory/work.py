"""The worker's part: leases, reading, settling, giving back, and the recovery of what was lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tq_celery.store.contract import (
    Delivery,
    Obituary,
    RenewReply,
    Return,
    Settlement,
    Token,
    WorkerAnnouncement,
)
from tq_celery.store.memory.base import Base
from tq_celery.store.record import unpack_record
from tq_celery.store.stamps import stamps_of

__all__ = ["Work"]

#: Reasons that dead letters carry.
SPENT, LOST = "delivery budget spent", "worker lost"
#: Most ms between two that come back one at a time.
APART = 1000


class Work(Base):
    """Everything that workers do, and that schedulers do about lost workers."""

    def renew(self, announcement: WorkerAnnouncement, lease: int) -> RenewReply:
        """Extend the lease and publish what the worker offers; a change wakes the leader."""
        ns, worker = self.ns, announcement.worker
        status = "renewed" if worker in ns.leases else "joined"
        ns.leases[worker] = ns.now + lease
        if ns.announcements.get(worker) != announcement:
            ns.announcements[worker] = announcement
            ns.wake("workers")
        return RenewReply(status, float(ns.now))

    def workers(self) -> tuple[list[WorkerAnnouncement], int]:
        """Return announcements with their expiries, and the time."""
        ns = self.ns
        announced = [
            replace(ns.announcements[worker], expires=expires)
            for worker, expires in sorted(ns.leases.items())
        ]
        return announced, ns.now

    def withdraw(self, worker: str) -> None:
        """Forget a stopped worker; what it still holds is returned uncounted."""
        self._recall(worker, "returned", budget=0, counted=False, reason="", batch=None)
        self.ns.wake("workers")

    def reclaim(self, worker: str, budget: int, counted: bool, batch: int, spread: int = 0) -> int:
        """Take back a lapsed worker's deliveries; -1 while its lease is current."""
        if self.ns.leases.get(worker, 0) > self.ns.now:
            return -1
        taken = self._recall(
            worker, "reclaimed", budget=budget, counted=counted, reason=LOST, batch=batch,
            spread=spread,
        )  # fmt: skip
        self.ns.starved = False
        self.ns.wake("workers")
        return taken

    def reclaim_orphans(self, queue: str, age: int, batch: int) -> int:
        """Take back what nobody will read or settle: unread, or read without a lease."""
        ns, taken = self.ns, 0
        served = any(
            queue in ns.announcements[worker].queues and expires + age > ns.now
            for worker, expires in ns.leases.items()
        )
        for entry, delivery in list(ns.exec[queue].items()):
            old = int(entry.partition(b"-")[0]) + age <= ns.now
            lost = not served if delivery.worker is None else delivery.worker not in ns.leases
            run = ns.running[queue].get(entry)
            if taken < batch and old and lost and run is not None:
                token = Token(queue, entry, run.epoch)
                self._restore(token, run, "reclaimed", budget=0, counted=False, delay=0, reason="")
                self.index.release(run.tenant)
                taken += 1
        if taken:
            ns.starved = False
            ns.wake("returned")
        return taken

    def read(self, worker: str, rooms: Mapping[str, int], timeout: int) -> list[Delivery]:
        """Hand over unread entries, up to each queue's room."""
        ns, found = self.ns, []
        for queue, room in rooms.items():
            unread = [item for item in ns.exec[queue].items() if item[1].worker is None]
            for entry, delivery in unread[:room]:
                delivery.worker = worker
                digest, payload = ns.payload.get(delivery.key, (b"", None))
                token = Token(queue, entry, delivery.epoch)
                revoked = self._is_marked(delivery.key, payload, entry)
                found.append(
                    Delivery(token, delivery.key, delivery.attempts, payload, digest, revoked)
                )
        return found

    def _is_marked(self, key: bytes, payload: bytes | None, entry: bytes) -> bool:
        """Tell whether a mark on the id or on a stamp lasted beyond the dispatch."""
        ns, dispatched = self.ns, int(entry.partition(b"-")[0])
        ends = [ns.revoked.get(key.split(b".", 3)[-1].decode(), 0)]
        ends += [ns.revoked_stamps.get(stamp, 0) for stamp in stamps_of(payload)]
        return max(ends) > dispatched

    def read_obituaries(self, worker: str, queues: Sequence[str]) -> list[Obituary]:
        """Hand over obituaries that no worker has."""
        found = []
        for queue in queues:
            for entry, obituary in self.ns.obituary[queue].items():
                if entry not in self.ns.mourners:
                    self.ns.mourners[entry] = worker
                    found.append(obituary)
        return found

    def close_obituaries(self, items: Sequence[Obituary]) -> None:
        """Forget written obituaries and their payloads."""
        for item in items:
            if self.ns.obituary[item.queue].pop(item.entry, None) is not None:
                self.ns.mourners.pop(item.entry, None)
                self.ns.payload.pop(item.key, None)

    def complete(self, worker: str, items: Sequence[Settlement]) -> list[bool]:
        """Settle each delivery whose token is current."""
        replies = []
        for item in items:
            run = self._current(item.token)
            if run is not None:
                self._close(item.token, run)
                key = self._settle(run, item, worker)
                self.ns.payload.pop(key, None)
                if self.index.release(run.tenant):
                    self.ns.starved = True
            else:
                self.ns.count("resettled", item.token.queue)
            replies.append(run is not None)
        if any(replies):
            self._credit()
        return replies

    def give_back(self, items: Sequence[Return], budget: int) -> list[bool]:
        """Return each delivery whose token is current."""
        replies = []
        for item in items:
            run = self._current(item.token)
            if run is not None:
                self._restore(
                    item.token,
                    run,
                    "returned",
                    budget=budget,
                    counted=item.counted,
                    delay=item.delay,
                    reason=SPENT,
                )
                self.index.release(run.tenant)
                self.ns.starved = False
                self.ns.wake("returned")
            replies.append(run is not None)
        return replies

    def bury(self, worker: str, token: Token, reason: str) -> bool:
        """Move a delivery to the dead letters."""
        run = self._current(token)
        if run is None:
            self.ns.count("resettled", token.queue)
            return False
        self._close(token, run)
        self._bury(token, run, reason, worker)
        self.index.release(run.tenant)
        self._credit()
        return True

    def _recall(
        self, worker: str, word: str, *, budget: int, counted: bool, reason: str,
        batch: int | None, spread: int = 0,
    ) -> int:  # fmt: skip
        """Take back a worker's deliveries and obituaries; forget it when it holds nothing more."""
        ns = self.ns
        held = [
            (Token(queue, entry, ns.running[queue][entry].epoch), ns.running[queue][entry])
            for queue in sorted(ns.queues)
            for entry, delivery in ns.exec[queue].items()
            if delivery.worker == worker
        ]
        taken = held[:batch]
        several = Counter(token.queue for token, _ in taken)
        before = Counter[str]()
        for token, run in taken:
            # One of those lost again may end every worker that has it: one at a time they return.
            again = counted and unpack_record(run.record).attempts > 0
            apart = min(APART, spread // several[token.queue])
            self._restore(
                token, run, word, budget=budget, counted=counted, reason=reason, worker=worker,
                delay=apart * before[token.queue] if again else 0,
            )  # fmt: skip
            before[token.queue] += 1
            self.index.release(run.tenant)
        kept = [entry for entry, holder in ns.mourners.items() if holder == worker]
        for entry in kept:
            self._mourn_again(entry)
        if batch is None or len(held) + len(kept) < batch:
            ns.leases.pop(worker, None)
            ns.announcements.pop(worker, None)
        return len(taken) + len(kept)

    def _mourn_again(self, entry: bytes) -> None:
        """Put an obituary whose worker is gone at the end, for another worker."""
        ns = self.ns
        del ns.mourners[entry]
        for obituaries in ns.obituary.values():
            if entry in obituaries:
                again = ns.entry_id()
                obituaries[again] = obituaries.pop(entry)._replace(entry=again)
