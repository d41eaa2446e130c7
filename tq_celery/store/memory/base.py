"""The steps that several scripts share: tokens, settling, burying and returning a delivery."""

from __future__ import annotations

from dataclasses import replace

from tq_celery.states import Outcome
from tq_celery.store.contract import Obituary, Settlement, Token
from tq_celery.store.memory.index import Index
from tq_celery.store.memory.ranked import Ranked
from tq_celery.store.memory.served import note_end
from tq_celery.store.memory.state import DeadLetter, Exec, Namespace, Result, Run
from tq_celery.store.record import TaskKey, pack_delayed, pack_record, unpack_record

__all__ = ["Base"]


class Base:
    """A namespace, its index, and what its scripts have in common."""

    def __init__(self, namespace: str = "memory", *, dead_maxlen: int | None = None) -> None:
        self.namespace = namespace
        self.dead_maxlen = dead_maxlen
        self.ns = Namespace()
        self.index = Index(self.ns)

    @property
    def now(self) -> int:
        """The store's clock in ms; it moves only when it is set."""
        return self.ns.now

    @now.setter
    def now(self, ms: int) -> None:
        self.ns.now = ms

    @property
    def generation(self) -> int:
        """The generation of ranks that is current."""
        return int(self.ns.config.get("generation", "1"))

    def _current(self, token: Token) -> Run | None:
        """Return the run that ``token`` may settle; None for a stale one."""
        run = self.ns.running[token.queue].get(token.entry)
        return run if run is not None and run.epoch == token.epoch else None

    def _deliver(self, queue: str, tenant: bytes, record: bytes, rank: float, epoch: int) -> None:
        """Append an exec entry and its run."""
        ns, task = self.ns, unpack_record(record)
        entry = ns.entry_id()
        ns.exec[queue][entry] = Exec(task.key, epoch, task.attempts)
        ns.running[queue][entry] = Run(epoch, self.generation, tenant, rank, record, ns.now)
        ns.running_of[tenant] += 1

    def _close(self, token: Token, run: Run) -> Outcome | None:
        """End a delivery; return how its task was superseded, if it was."""
        ns, queue, entry = self.ns, token.queue, token.entry
        del ns.running[queue][entry]
        ns.exec[queue].pop(entry, None)
        ns.running_of[run.tenant] -= 1
        ns.count("dispatched", queue, -1)
        return ns.superseded[queue].pop(entry, None)

    def _settle(self, run: Run, settlement: Settlement, worker: str) -> bytes:
        """Write a task's one outcome; the caller has closed its run."""
        ns, queue, key = self.ns, settlement.token.queue, unpack_record(run.record).key
        note_end(ns, run, settlement)
        ns.results.append(
            Result(key, queue, run.tenant, run.record, run.dispatched, settlement, worker)
        )
        ns.remember_done(key, settlement.digest)
        ns.live_of[run.tenant] -= 1
        ns.count(settlement.outcome, queue)
        task_id = TaskKey.decode(key).id
        if ns.ids.get(task_id, (b"",))[0] == key:
            del ns.ids[task_id]
        return key

    def _end_outside(
        self,
        queue: str,
        tenant: bytes,
        record: bytes,
        outcome: Outcome,
        reason: str,
        epoch: int = 0,
        dispatched: int = 0,
        entry: bytes = b"",
    ) -> None:
        """End a task that no worker has; whoever waits for it learns that by an obituary."""
        ns, key = self.ns, unpack_record(record).key
        digest, payload = ns.payload.get(key, (b"", None))
        token = Token(queue, entry, epoch)
        run = Run(epoch, 0, tenant, 0.0, record, dispatched)
        self._settle(run, Settlement(token, outcome, digest, 0, ns.now), "")
        told = ns.entry_id()
        ns.obituary[queue][told] = Obituary(queue, told, key, outcome, reason, payload)

    def _bury(self, token: Token, run: Run, reason: str, worker: str) -> None:
        """Keep everything needed to requeue the task, and leave an obituary."""
        ns, key = self.ns, unpack_record(run.record).key
        digest, payload = ns.payload.get(key, (b"", None))
        letter = DeadLetter(token.queue, run.tenant, run.record, payload, digest, reason, token)
        self._add_dead(letter)
        self._settle(run, Settlement(token, Outcome.DEAD, digest, 0, ns.now), worker)
        entry = ns.entry_id()
        obituary = Obituary(token.queue, entry, key, Outcome.DEAD, reason, payload)
        ns.obituary[token.queue][entry] = obituary

    def _add_dead(self, letter: DeadLetter) -> None:
        dead = self.ns.dead
        dead[self.ns.entry_id()] = letter
        if self.dead_maxlen is not None and len(dead) > self.dead_maxlen:
            del dead[next(iter(dead))]

    def _restore(
        self, token: Token, run: Run, word: str, *, budget: int, counted: bool, delay: int,
        reason: str, worker: str = "",
    ) -> None:  # fmt: skip
        """Take a delivery away: back to waiting at its old rank and already paid.

        ``word`` is ``reclaimed`` or ``returned``.
        Unless a retry has superseded it (it is settled as such), or its budget is spent.
        """
        ns, queue, tenant = self.ns, token.queue, run.tenant
        superseded = self._close(token, run)
        ns.count(word, queue)
        record = unpack_record(run.record)
        if superseded is not None:
            digest, _ = ns.payload.pop(record.key, (b"", b""))
            self._settle(run, Settlement(token, superseded, digest, 0, ns.now), worker)
            return
        spent = counted and record.attempts + 1 >= budget
        paid = record.paid if spent else 1
        record = replace(record, attempts=record.attempts + counted, paid=paid)
        run.record = pack_record(record)
        if spent:
            self._bury(token, run, reason, worker)
        elif delay > 0:
            member = pack_delayed(queue, tenant, run.record)
            ns.delayed.add(member, ns.now + delay)
            ns.count("delayed", queue)
            ns.wake("delayed")
        else:
            ns.count("pending", queue)
            if run.generation == self.generation:
                self.index.pend(queue, tenant, run.record, run.rank)
            else:
                # Ranked by an earlier policy: the leader ranks it anew.
                ns.outdated.setdefault((queue, tenant), Ranked()).add(run.record, run.rank)

    def _credit(self) -> None:
        """Wake the leader if it went short of credit."""
        if self.ns.starved:
            self.ns.starved = False
            self.ns.wake("credit")
