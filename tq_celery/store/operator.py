"""What an operator changes in a namespace while it runs; each is one atomic script."""

from __future__ import annotations

from collections.abc import Sequence

import redis

from tq_celery.errors import SchemaError, StoreError
from tq_celery.policies.registry import ageing_text, make_policy
from tq_celery.settings import Settings
from tq_celery.store.base import RedisPart
from tq_celery.store.contract import MAX_BATCH
from tq_celery.store.leader import _texts

__all__ = ["SCHEMA", "RedisOperator"]

#: Version of the layout of a namespace; another major version is refused.
SCHEMA = 1


class RedisOperator(RedisPart):
    """Weights, caps, pauses, policy, dead letters and the seeding of an empty namespace."""

    def seed(self, settings: Settings) -> dict[str, str]:
        """Write the configuration an empty namespace lacks; returns what is stored.

        Raises SchemaError when another major version wrote the namespace.
        """
        policy = make_policy(settings.policy, settings.order_within, settings.ageing)
        fields: list[str | int] = ["schema", SCHEMA, "policy", policy.name]
        fields += ["between", policy.between, "order_within", settings.order_within]
        fields += ["ageing", ageing_text(settings.ageing), "generation", 1]
        fields += ["max_running", "" if settings.max_running is None else settings.max_running]
        stored = _texts(self._call("seed", *fields))
        if stored.get("schema") != str(SCHEMA):
            raise SchemaError(
                "seed",
                f"namespace {self.keys.namespace!r} has schema {stored.get('schema')}; "
                f"this version works with {SCHEMA}",
            )
        return stored

    def set_weight(self, tenant: bytes, weight: float) -> int:
        """Set a tenant's share; waiting heads are re-scored at once and their number returned."""
        return int(self._call("set_weight", tenant, weight))

    def set_cap(self, tenant: bytes, max_running: int | None) -> bool:
        """Cap the tenant's running tasks, or lift the cap; True when tasks may compete again."""
        return bool(self._call("set_cap", tenant, "" if max_running is None else max_running))

    def set_max_running(self, max_running: int | None) -> None:
        """Cap the running tasks of the whole namespace, or lift the cap."""
        self._call("set_max_running", "" if max_running is None else max_running)

    def pause_tenant(self, tenant: bytes) -> bool:
        """Hold back a tenant's tasks; False when it was paused already."""
        return bool(self._call("pause_tenant", tenant, 1))

    def resume_tenant(self, tenant: bytes) -> bool:
        """Let a paused tenant compete again; False when it was not paused."""
        return bool(self._call("pause_tenant", tenant, 0))

    def pause_queue(self, queue: str) -> bool:
        """Dispatch nothing of a queue; False when it was paused already."""
        return bool(self._call("pause_queue", queue, 1, MAX_BATCH))

    def resume_queue(self, queue: str) -> bool:
        """Dispatch a paused queue again; False when it was not paused.

        Under a fair policy its tenants first start again at V, a batch in one call.
        """
        while (changed := int(self._call("pause_queue", queue, 0, MAX_BATCH))) < 0:
            pass
        return bool(changed)

    def set_policy(
        self, name: str, order_within: str = "arrival", ageing: float | None = None
    ) -> int:
        """Switch the policy of a running namespace; returns the new generation of ranks.

        ``ageing`` is in seconds, None = strict priorities. Tasks are ranked anew by the leader in
        bounded batches. Raises SettingsError for an unknown name or a value out of range, and
        StoreError while an earlier switch is unfinished.
        """
        policy = make_policy(name, order_within, ageing)
        words = (policy.name, policy.between, order_within, ageing_text(ageing))
        generation = int(self._call("set_policy", *words))
        if generation == 0:
            raise StoreError("set_policy", "an earlier policy switch is still being ranked anew")
        return generation

    def requeue(self, dead_entry: bytes) -> str:
        """Send a dead letter through the queue again.

        Returns ``requeued``, ``repeat`` (that generation was accepted before), ``missing`` or
        ``unreadable`` (a raw entry without a task).
        """
        word: bytes = self._call("requeue", dead_entry)
        return word.decode()

    def purge_dead(self, entries: Sequence[bytes]) -> int:
        """Delete dead letters; returns how many there were."""
        if not entries:
            return 0
        try:
            return int(self.client.xdel(self.keys.name("dead"), *entries))
        except (redis.RedisError, OSError) as error:
            raise self._wrap("requeue", error) from error
