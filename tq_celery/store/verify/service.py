"""Tenants are served as the policy says, as far as result records tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tq_celery.errors import SettingsError
from tq_celery.policies.contract import Policy
from tq_celery.policies.registry import make_policy, stored_ageing
from tq_celery.store.verify.contract import Violation
from tq_celery.store.verify.look import Look
from tq_celery.store.verify.order import overtaken
from tq_celery.store.verify.shares import alone, unequal
from tq_celery.store.verify.waits import Wait

__all__ = ["service", "service_limits"]


def service(
    look: Look, waits: Sequence[Wait], clock: int, checked: Counter[str]
) -> Iterator[Violation]:
    """Yield who was passed over; what was compared is counted in ``checked``."""
    policy = _policy(look)
    if policy is None or policy.between == "none":
        return
    checked["service"] += len(waits)
    yield from overtaken(look, waits, policy, clock)
    if policy.between == "fair":
        yield from unequal(look, waits, clock, checked)


def service_limits(look: Look, waits: Sequence[Wait]) -> Iterator[str]:
    """Yield what the comparison of tenants and tasks could not see."""
    policy = _policy(look)
    if policy is None or policy.between == "none":
        yield "without a policy nobody is served before another: service was not looked at"
        return
    if look.changes:
        last = max(look.changes, key=lambda word: look.changes[word])
        yield (
            f"service: from ms {look.changes[last]} on, when {last} changed, and after what had "
            "been admitted before was gone"
        )
    held = len(look.caps.keys() | look.paused_tenants)
    if held:
        yield f"service: not of {held} tenants that have a cap or are paused"
    back = sum(not each.known for each in waits)
    if back:
        yield f"service: when {back} tasks that came back waited is not known"
    queues = {each.queue for each in waits}
    shared = queues - set(alone(look, queues))
    if shared and policy.between == "fair":
        yield f"service: shares were not compared on {len(shared)} queues that share workers"


def _policy(look: Look) -> Policy | None:
    config = look.config
    try:
        within = config.get("order_within", "arrival")
        return make_policy(config.get("policy", ""), within, stored_ageing(config))
    except SettingsError:
        return None
