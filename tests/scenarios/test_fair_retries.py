"""Retries are work like any other: charged to their tenant, and in its place under every policy.

celery/kombu #166 and yiisoft/yii2-queue #324: what came due again jumped the whole line.
"""

from __future__ import annotations

import pytest

from tests.scenarios.simulation import Simulation
from tests.store.contract.steps import NO_LIMITS, admit_all, complete, promote_all, task
from tq_celery.states import Outcome
from tq_celery.store.record import TaskKey


def end(pool: Simulation, *, retry: bool, delay: int | None) -> None:
    """End what runs; a retry is sent by its parent, in one step with its end."""
    (_, _, token) = pool._running.pop()
    run = pool.store.ns.running[token.queue][token.entry]
    key = TaskKey.decode(pool.store.ns.exec[token.queue][token.entry].key)
    if retry:
        child = task(f"{key.id}r{key.retries + 1}", run.tenant, token.queue, delay=delay)
        child = child._replace(
            key=key._replace(retries=key.retries + 1), parent=token,
            supersedes=Outcome.RETRIED,
        )  # fmt: skip
        assert pool.store.submit(child, NO_LIMITS).status == "accepted"
    pool.time += 1.0
    pool.store.now = pool._origin + int(pool.time * 1000)
    outcome = Outcome.RETRIED if retry else Outcome.COMPLETED
    assert pool.store.complete("w", [complete(token, outcome)]) == [True]
    admit_all(pool.store, pool.epoch)
    promote_all(pool.store, pool.epoch)


def serve(pool: Simulation, starts: int, delay: int | None, *failing: str) -> None:
    """Run one task after the other; those of the tenants ``failing`` all fail and are retried."""
    for _ in range(starts):
        (tenant,) = pool.start()
        end(pool, retry=tenant in failing, delay=delay)


@pytest.mark.parametrize("delay", [None, 5_000], ids=["at once", "after a countdown"])
def test_a_tenant_whose_tasks_all_fail_gets_its_share_and_no_more(delay: int | None) -> None:
    """A hundred tasks fail for ever beside two tenants with a backlog: a third each, to one task.

    Seen to fail (600 of 600) when a failed task goes back unsettled, as paid for already.
    """
    pool = Simulation()
    pool.send("failing", 100)
    pool.send("steady", 600)
    pool.send("calm", 600)
    serve(pool, 600, delay, "failing")
    assert pool.service["failing"] == pytest.approx(200, abs=1)
    assert pool.service["steady"] == pytest.approx(200, abs=1)


def test_weights_count_for_retries_too() -> None:
    pool = Simulation()
    pool.store.set_weight(b"failing", 0.25)
    pool.send("failing", 50)
    pool.send("steady", 500)
    serve(pool, 400, None, "failing")
    assert pool.service["failing"] == pytest.approx(80, abs=1)


def test_waiting_for_a_retry_earns_nothing() -> None:
    """A tenant whose retries all wait an hour has no claim on the hour when they are due."""
    pool = Simulation()
    pool.send("failing", 30)
    pool.send("steady", 4_000)
    serve(pool, 60, 1_000_000, "failing")
    assert pool.service["failing"] == 30
    before = dict(pool.service)
    serve(pool, 940, None)
    pool.time += 1_000
    pool.store.now += 1_000_000
    promote_all(pool.store, pool.epoch)
    assert pool.waiting("failing") == 30
    before = dict(pool.service)
    serve(pool, 40, None)
    assert pool.service["failing"] - before["failing"] == pytest.approx(20, abs=1)
