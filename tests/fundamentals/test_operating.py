"""Operating: look, pause, cap, bound, and bring back what was given up."""

from __future__ import annotations

import pytest
from celery import Celery
from celery.exceptions import Reject

from tq_celery import TQ, QueueFullError

app = Celery("shop")
tq = TQ(app, delivery_budget=2, max_pending_tenant=50)

broken = True


@tq.task(tenant="account")
def report(account):
    return account


def test_status_shows_leader_queues_tenants_and_workers(operate, totals):
    report.delay("acme").get(timeout=30)
    totals()

    page = operate("status")

    assert "wfq" in page
    assert "celery" in page
    status = operate("status", "--json")
    assert status["leader"]["owner"]
    assert status["queues"][0]["workers"] == 1
    assert status["workers"][0]["slots"] == 1


def test_a_paused_tenant_waits_and_nobody_else_does(operate, wait_until):
    operate("tenants", "pause", "globex", "--new")
    held = report.delay("globex")

    assert report.delay("acme").get(timeout=30) == "acme"
    wait_until(
        lambda: operate("queues", "list", "--json")["queues"][0]["gated"], "globex is held back"
    )
    assert not held.ready()

    operate("tenants", "resume", "globex")
    assert held.get(timeout=30) == "globex"


def test_a_paused_queue_takes_tasks_and_starts_none(operate, wait_until):
    operate("queues", "pause", "celery")
    held = report.delay("acme")

    wait_until(
        lambda: operate("queues", "list", "--json")["queues"][0]["pending"], "it waits for its turn"
    )
    assert not held.ready()

    operate("queues", "resume", "celery")
    assert held.get(timeout=30) == "acme"


def test_explain_says_what_a_task_waits_for(operate, queue_paused, totals, wait_until):
    with queue_paused():
        first, second = report.delay("acme"), report.delay("acme")
        wait_until(
            lambda: operate("explain", second.id, "--json")["state"] == "pending", "it is ranked"
        )
        told = operate("explain", second.id)

    assert "its queue, which is paused (tq queues resume)" in told
    assert "its turn: 1 task goes before it, its own tenant's" in told
    second.get(timeout=30)
    first.get(timeout=30)
    totals()
    assert "waits for: nothing: it has ended" in operate("explain", first.id)


def test_a_cap_is_stored_with_the_tenant(operate):
    operate("tenants", "cap", "acme", "2", "--new")

    tenants = {each["tenant"]: each for each in operate("tenants", "list", "--json")["tenants"]}
    assert tenants["acme"]["max_running"] == 2
    assert report.delay("acme").get(timeout=30) == "acme"

    operate("tenants", "cap", "acme", "none")


def test_a_bound_on_what_may_wait_refuses_the_flood_where_it_starts(queue_paused):
    with queue_paused():
        waiting = [report.delay("globex") for _ in range(50)]
        with pytest.raises(QueueFullError, match="globex"):
            report.delay("globex")
        waiting.append(report.delay("acme"))  # the bound is each tenant's own

    for result in waiting:
        result.get(timeout=30)


@tq.task(tenant="account")
def render(account):
    if broken:
        raise Reject("this stands for a process that dies with the task", requeue=True)
    return f"catalogue for {account}"


def test_a_task_that_is_lost_again_and_again_becomes_a_dead_letter(operate, totals):
    result = render.delay("acme")

    with pytest.raises(Exception, match="delivery budget spent"):
        result.get(timeout=30)  # the caller is told
    totals()
    (letter,) = operate("dlq", "list", "--json")["entries"]
    assert (letter["task"], letter["tenant"], letter["attempts"]) == (render.name, "acme", 2)


def test_and_runs_again_when_the_cause_is_gone(operate, totals, wait_until):
    global broken
    broken = False
    (letter,) = operate("dlq", "list", "--json")["entries"]

    operate("dlq", "requeue", letter["entry"])

    # a result object remembers a failure it has seen, so each look takes a new one
    wait_until(lambda: app.AsyncResult(letter["id"]).successful(), "the same task succeeds")
    assert app.AsyncResult(letter["id"]).get() == "catalogue for acme"
    assert operate("dlq", "list", "--json")["entries"] == []


def test_the_doctor_says_what_a_deployment_gets_wrong(operate, totals):
    totals()

    findings = {each["check"]: each for each in operate("doctor", "--json")["findings"]}

    assert findings["leader"]["level"] == "ok"
    assert findings["conservation"]["level"] == "ok"
    assert findings["persistence"]["level"] == "warn", "the server of these tests keeps nothing"
