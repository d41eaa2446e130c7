"""The policies by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches

from tq_celery.errors import SettingsError
from tq_celery.policies.contract import Policy
from tq_celery.policies.edf import EarliestDeadline
from tq_celery.policies.fifo import Fifo
from tq_celery.policies.none import Unscheduled
from tq_celery.policies.priority import LEAST_AGEING, MOST_AGEING, Priority
from tq_celery.policies.wfq import ORDERS, OrderWithin, WeightedFair

__all__ = ["ORDERS_WITHIN", "POLICIES", "ageing_text", "make_policy", "stored_ageing"]

#: How each policy is made, from the order within a tenant and the ageing. Only ``wfq`` reads the
#: order, because in the others a head's own rank also decides between tenants; ageing is read
#: where priority ranks.
POLICIES: dict[str, Callable[[OrderWithin, float | None], Policy]] = {
    "fifo": lambda *_: Fifo(),
    "priority": lambda _, ageing: Priority(ageing),
    "edf": lambda *_: EarliestDeadline(),
    "wfq": WeightedFair,
    "none": lambda *_: Unscheduled(),
}
#: The words ``order_within`` may be.
ORDERS_WITHIN: tuple[OrderWithin, ...] = tuple(ORDERS)
_AGEINGS = f"a number of seconds from {LEAST_AGEING:g} to {MOST_AGEING:g}, or none for strict order"


def make_policy(name: str, order_within: str = "arrival", ageing: float | None = None) -> Policy:
    """Return the policy called ``name``; ``ageing`` is in seconds, None = strict priorities.

    Raises SettingsError that names the value, what is allowed and the nearest word.
    """
    make = POLICIES.get(name)
    if make is None:
        raise SettingsError("policy", name, _one_of(name, tuple(POLICIES)))
    if order_within not in ORDERS_WITHIN:
        raise SettingsError("order_within", order_within, _one_of(order_within, ORDERS_WITHIN))
    if ageing is not None and not (
        isinstance(ageing, int | float) and LEAST_AGEING <= ageing <= MOST_AGEING
    ):
        raise SettingsError("ageing", ageing, _AGEINGS)
    return make(order_within, ageing)


def ageing_text(ageing: float | None) -> str:
    """Return an ageing as a namespace stores it: seconds, empty for none."""
    return "" if ageing is None else str(float(ageing))


def stored_ageing(config: Mapping[str, str]) -> float | None:
    """Return the ageing of a stored configuration; SettingsError when it is no number."""
    text = config.get("ageing", "")
    try:
        return float(text) if text else None
    except ValueError:
        raise SettingsError("ageing", text, _AGEINGS) from None


def _one_of(given: object, words: tuple[str, ...]) -> str:
    """Say which words are allowed, and which one was probably meant."""
    near = get_close_matches(str(given).lower(), words, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"one of {', '.join(words)}{hint}"
