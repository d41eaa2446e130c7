"""A first task: three lines, a decorator, a scheduler, and the worker you have already."""

from __future__ import annotations

import pytest
from celery import Celery

from tq_celery import TQ

app = Celery("shop")
tq = TQ(app)


@tq.task(tenant="account")
def report(account, pages=1):
    if pages < 1:
        raise ValueError("a report has pages")
    return f"report for {account}"


@app.task
def heartbeat():
    return "alive"


def test_you_call_a_task_as_you_always_did():
    result = report.delay("acme")

    assert result.get(timeout=30) == "report for acme"


def test_the_scheduler_had_it_on_the_way(totals):
    assert totals() == {"accepted": 1, "completed": 1}


def test_a_task_without_the_decorator_stays_where_it_was(totals):
    assert heartbeat.delay().get(timeout=30) == "alive"

    assert totals()["accepted"] == 1, "the broker had it, not the scheduler"


def test_a_task_sent_by_its_name_is_scheduled_too(totals):
    result = app.send_task(report.name, ["acme"])

    assert result.get(timeout=30) == "report for acme"
    assert totals() == {"accepted": 2, "completed": 2}


def test_calling_the_function_is_only_a_call(totals):
    assert report("acme") == "report for acme"

    assert totals()["accepted"] == 2


def test_an_exception_reaches_the_caller_and_counts_as_failed(totals):
    result = report.delay("acme", pages=0)

    with pytest.raises(ValueError, match="a report has pages"):
        result.get(timeout=30)
    assert totals() == {"accepted": 3, "completed": 2, "failed": 1}


def test_every_task_leaves_one_line_in_the_results(totals, result_lines):
    totals()
    first, second, third = result_lines()

    assert [line["outcome"] for line in (first, second, third)] == [
        "completed",
        "completed",
        "failed",
    ]
    assert first["tenant"] == "acme"
    assert int(first["submitted"]) <= int(first["admitted"]) <= int(first["dispatched"])
    assert float(first["started"]) <= float(first["finished"])
