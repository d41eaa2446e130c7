"""The operator's part: weights, caps, pauses, dead letters and the first configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from tq_celery.policies.registry import ageing_text, make_policy
from tq_celery.store.memory.base import Base
from tq_celery.store.memory.state import IngressEntry
from tq_celery.store.record import TaskKey, pack_record, unpack_record

__all__ = ["Operate", "Seed"]

#: Version of the data's layout.
SCHEMA = "1"


class Seed(Protocol):
    """The settings that an empty namespace takes over."""

    @property
    def policy(self) -> str: ...
    @property
    def order_within(self) -> str: ...
    @property
    def ageing(self) -> float | None: ...
    @property
    def max_running(self) -> int | None: ...


class Operate(Base):
    """Changes that people make to a running namespace."""

    def seed(self, settings: Seed) -> dict[str, str]:
        """Write fields that the namespace does not have; returns what is stored."""
        policy = make_policy(settings.policy, settings.order_within, settings.ageing)
        first = {
            "schema": SCHEMA,
            "policy": policy.name,
            "between": policy.between,
            "order_within": settings.order_within,
            "ageing": ageing_text(settings.ageing),
            "generation": "1",
        }
        first["max_running"] = "" if settings.max_running is None else str(settings.max_running)
        if not self.ns.config:
            self.ns.config.update(first)
        return dict(self.ns.config)

    def set_weight(self, tenant: bytes, weight: float) -> int:
        """Set a share; waiting heads are scored again at once, from the start they have."""
        self.ns.weights[tenant] = weight
        self.ns.wake("config")
        waits = [queue for queue in sorted(self.ns.queues) if tenant in self.ns.heads[queue]]
        if not self.index.fair:
            return 0
        for queue in waits:
            self.index.place(queue, tenant)
        return len(waits)

    def set_cap(self, tenant: bytes, max_running: int | None) -> bool:
        """Cap a tenant's running tasks or lift the cap; True when tasks may compete again."""
        if max_running is None:
            self.ns.caps.pop(tenant, None)
        else:
            self.ns.caps[tenant] = max_running
        self.ns.wake("config")
        return self.index.release(tenant)

    def set_max_running(self, max_running: int | None) -> None:
        """Cap the running tasks of the whole namespace, or lift the cap."""
        self.ns.config["max_running"] = "" if max_running is None else str(max_running)
        self.ns.wake("config")

    def pause_tenant(self, tenant: bytes) -> bool:
        """Let the tenant's tasks wait; False when it was paused already."""
        changed = tenant not in self.ns.paused_tenants
        self.ns.paused_tenants.add(tenant)
        for queue in sorted(self.ns.queues):
            if tenant in self.ns.heads[queue]:
                self.index.gate(queue, tenant)
        self.ns.wake("config")
        return changed

    def resume_tenant(self, tenant: bytes) -> bool:
        """Let the tenant compete again, at V; False when it was not paused."""
        changed = tenant in self.ns.paused_tenants
        self.ns.paused_tenants.discard(tenant)
        self.index.release(tenant)
        self.ns.wake("config")
        return changed

    def pause_queue(self, queue: str) -> bool:
        """Dispatch nothing from the queue; False when it was paused already."""
        changed = queue not in self.ns.paused_queues
        self.ns.paused_queues.add(queue)
        self.ns.wake("config")
        return changed

    def resume_queue(self, queue: str) -> bool:
        """Dispatch from the queue again; False when it was not paused."""
        changed = queue in self.ns.paused_queues
        if changed:
            self.index.forgive(queue)
        self.ns.paused_queues.discard(queue)
        self.ns.wake("config")
        return changed

    def requeue(self, dead_entry: bytes) -> str:
        """Send a dead letter through the queue again, as the next generation of its task."""
        ns = self.ns
        letter = ns.dead.get(dead_entry)
        if letter is None:
            return "missing"
        if letter.fields is not None:
            return "unreadable"
        record = unpack_record(letter.record)
        old = TaskKey.decode(record.key)
        key = old._replace(generation=old.generation + 1).encode()
        del ns.dead[dead_entry]
        if key in ns.payload or ns.done_digest(key) is not None:
            return "repeat"
        ns.payload[key] = (letter.digest, letter.payload or b"")
        fresh = replace(
            record, ms=0, seq=0, submitted=ns.now, admitted=0, attempts=0, paid=0, key=key
        )
        ns.ingress[ns.entry_id()] = IngressEntry(letter.queue, letter.tenant, pack_record(fresh))
        for word in ("submitted", "accepted"):
            ns.count(word, letter.queue)
        ns.live_of[letter.tenant] += 1
        ns.ids[old.id] = (key, letter.queue, letter.tenant)
        return "requeued"

    def purge_dead(self, entries: Sequence[bytes]) -> int:
        """Delete dead letters; returns how many there were."""
        return sum(self.ns.dead.pop(entry, None) is not None for entry in entries)
