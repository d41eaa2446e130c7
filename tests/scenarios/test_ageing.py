"""Low priority ages (celery/kombu #166): steady urgent work delays it for a stated time only."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.scenarios.simulation import Simulation

URGENT, LOW = 9, 0
#: Seconds of waiting that are worth one level, so nine levels are worth a minute and a half.
AGEING = 10.0
WORTH = (URGENT - LOW) * AGEING

RULES = [{"policy": "priority"}, {"policy": "wfq", "order_within": "priority"}]
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["policy"])


def under_urgent_work(rule: dict[str, Any], seconds: int, backlog: int = 5) -> float | None:
    """Send one low task into a slot that urgent work fills; returns how long it waited.

    Every task takes the only slot for a second, and an urgent one arrives every second, so that
    some always wait. None when the low task has not started by the end.
    """
    pool = Simulation(**rule)
    pool.send("t", backlog, priority=URGENT)
    pool.send("t", 1, priority=LOW)
    low = f"n{pool.number}"
    for _ in range(seconds):
        pool.send("t", 1, priority=URGENT)
        pool.run(1)
        if pool.starts[-1][2] == low:
            return pool.waits["t"][-1]
    return None


@each_rule
def test_a_low_task_starves_under_steady_urgent_work_by_default(rule: dict[str, Any]) -> None:
    """On purpose: twenty times the bound below is not enough."""
    assert under_urgent_work(rule, int(20 * WORTH)) is None


@each_rule
@pytest.mark.parametrize("backlog", [1, 5, 40])
def test_with_ageing_it_starts_within_the_bound(rule: dict[str, Any], backlog: int) -> None:
    """It waits for what came before it and for what came within the next 90 s, and no more."""
    waited = under_urgent_work({**rule, "ageing": AGEING}, int(20 * WORTH), backlog)
    assert waited is not None, "the low task starves"
    assert WORTH <= waited <= WORTH + backlog + 1


@each_rule
def test_nothing_is_overtaken_by_more_than_its_levels_are_worth(rule: dict[str, Any]) -> None:
    """An overloaded pool and every level: who starts first came at most so much later."""
    pool, dice = Simulation(**rule, ageing=AGEING), random.Random(166)
    sent: dict[str, tuple[float, int]] = {}
    for _ in range(300):
        for _ in range(2):
            priority = dice.choice([0, 1, 5, 9, 255])
            pool.send("t", 1, priority=priority)
            sent[f"n{pool.number}"] = (pool.time, priority)
        pool.run(1)
    order = [name for _, _, name in pool.starts]
    for place, name in enumerate(order):
        at, priority = sent[name]
        for earlier in order[:place]:
            came, level = sent[earlier]
            assert came - at <= max(0, level - priority) * AGEING
    assert len({sent[name][1] for name in order}) > 2, "one level alone was served"


def test_ageing_within_a_tenant_takes_nothing_from_another() -> None:
    """Under ``wfq`` both tenants have half, whatever the priorities of one do."""
    pool = Simulation(policy="wfq", order_within="priority", ageing=AGEING)
    pool.send("plain", 400)
    for _ in range(300):
        pool.send("mixed", 1, priority=URGENT)
        pool.send("mixed", 1, priority=LOW)
        pool.run(1)
    assert abs(pool.service["plain"] - pool.service["mixed"]) <= 2
