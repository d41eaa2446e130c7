"""The policies by name."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

from tq_celery.errors import SettingsError
from tq_celery.policies.contract import Policy
from tq_celery.policies.edf import EarliestDeadline
from tq_celery.policies.fifo import Fifo
from tq_celery.policies.none import Unscheduled
from tq_celery.policies.priority import Priority
from tq_celery.policies.wfq import ORDERS, OrderWithin, WeightedFair

__all__ = ["ORDERS_WITHIN", "POLICIES", "make_policy"]

#: How each policy is made; only ``wfq`` reads the order within a tenant, because in the others
#: a head's own rank also decides between tenants.
POLICIES: dict[str, Callable[[OrderWithin], Policy]] = {
    "fifo": lambda _: Fifo(),
    "priority": lambda _: Priority(),
    "edf": lambda _: EarliestDeadline(),
    "wfq": WeightedFair,
    "none": lambda _: Unscheduled(),
}
#: The words ``order_within`` may be.
ORDERS_WITHIN: tuple[OrderWithin, ...] = tuple(ORDERS)


def make_policy(name: str, order_within: str = "arrival") -> Policy:
    """Return the policy called ``name``.

    Raises SettingsError that names the value, the allowed words and the nearest of them.
    """
    make = POLICIES.get(name)
    if make is None:
        raise SettingsError("policy", name, _one_of(name, tuple(POLICIES)))
    if order_within not in ORDERS_WITHIN:
        raise SettingsError("order_within", order_within, _one_of(order_within, ORDERS_WITHIN))
    return make(order_within)


def _one_of(given: object, words: tuple[str, ...]) -> str:
    """Say which words are allowed, and which one was probably meant."""
    near = get_close_matches(str(given).lower(), words, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"one of {', '.join(words)}{hint}"
