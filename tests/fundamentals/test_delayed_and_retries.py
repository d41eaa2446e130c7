"""Later and again: countdown, eta, expiry, retry, and a workflow that waits for its parts."""

from __future__ import annotations

import datetime
import time

import pytest
from celery import Celery, chord
from celery.exceptions import TaskRevokedError

from tq_celery import TQ

app = Celery("shop")
tq = TQ(app)

ran: list[str] = []


@tq.task(tenant="account")
def remind(account):
    ran.append(account)
    return time.time()


@pytest.fixture(autouse=True)
def nothing_ran_yet():
    ran.clear()


def test_a_countdown_waits_in_the_store_and_not_in_a_worker(operate):
    sent = time.time()
    result = remind.apply_async(["acme"], countdown=1)

    (queue,) = operate("queues", "list", "--json")["queues"]
    assert queue["delayed"] == 1
    assert result.get(timeout=30) - sent >= 1


def test_an_eta_is_kept(totals):
    moment = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=0.3)
    result = remind.apply_async(["acme"], eta=moment)

    assert result.get(timeout=30) >= moment.timestamp()


def test_what_is_due_takes_its_turn_like_other_work(queue_paused, wait_until, operate):
    with queue_paused():
        flood = [remind.delay("globex") for _ in range(20)]
        due = remind.apply_async(["acme"], countdown=0.05)
        wait_until(
            lambda: not operate("queues", "list", "--json")["queues"][0]["delayed"], "it is due"
        )

    for result in [due, *flood]:
        result.get(timeout=30)
    assert ran.index("acme") <= 2, "acme has its own turn, behind nobody's flood"


def test_a_task_that_expired_while_it_waited_is_not_run(queue_paused, totals):
    before = totals().get("expired", 0)

    with queue_paused():
        result = remind.apply_async(["acme"], expires=0.05)
        time.sleep(0.1)

    with pytest.raises(TaskRevokedError):
        result.get(timeout=30)
    assert ran == []
    assert totals()["expired"] == before + 1


@tq.task(tenant="account", bind=True, max_retries=3)
def fetch(self, account):
    ran.append(account)
    if self.request.retries < 2:
        raise self.retry(countdown=0.05)
    return f"fetched for {account}"


def test_a_retry_is_a_new_task_of_the_same_tenant(result_lines, totals):
    assert fetch.delay("acme").get(timeout=30) == "fetched for acme"

    assert ran == ["acme"] * 3
    totals()
    tries = result_lines()[-3:]
    assert [(line["retries"], line["outcome"]) for line in tries] == [
        ("0", "retried"),
        ("1", "retried"),
        ("2", "completed"),
    ]
    assert {line["tenant"] for line in tries} == {"acme"}


@tq.task(tenant="account")
def page(account, number):
    return number


@tq.task
def bind_pages(numbers):
    return sorted(numbers)


def test_a_chord_ends_when_all_of_its_parts_have(result_lines, totals):
    book = chord([page.s("acme", number) for number in range(5)], bind_pages.s())

    assert book.delay().get(timeout=30) == [0, 1, 2, 3, 4]
    totals()
    assert {line["tenant"] for line in result_lines()[-6:-1]} == {"acme"}
