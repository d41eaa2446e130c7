"""Options of a task: who it is for, what it costs, how urgent it is, when it is late."""

from __future__ import annotations

import datetime
from types import SimpleNamespace

import pytest
from celery import Celery, chain, shared_task

from tq_celery import TQ, OptionError, TQTask, const

app = Celery("shop")
app.conf.tq_routes = {"shop.legacy.*": {"tenant": "account", "priority": 7}}
tq = TQ(app)


@pytest.fixture
def scheduled(totals, result_lines):
    """What the scheduler was told about the last task."""

    def last():
        totals()
        line = result_lines()[-1]
        return SimpleNamespace(
            tenant=line["tenant"],
            cost=float(line["cost"]),
            priority=int(line["priority"]),
            deadline=int(line["deadline"]),
            submitted=int(line["submitted"]),
        )

    return last


# --- on the declaration --------------------------------------------------------------------------


@tq.task(tenant="account", cost="pages")
def report(account, pages=1):
    return account


def test_a_string_names_the_argument_that_has_the_value(scheduled):
    report.delay("acme", pages=12).get(timeout=30)

    assert scheduled().tenant == "acme"
    assert scheduled().cost == 12


def test_an_argument_that_is_left_out_counts_with_its_default(scheduled):
    report.delay("acme").get(timeout=30)

    assert scheduled().cost == 1


@tq.task(tenant=const("batch"), cost=2.5, priority=3, deadline=3600)
def nightly():
    return "done"


def test_a_literal_text_is_written_as_one(scheduled):
    nightly.delay().get(timeout=30)

    assert scheduled().tenant == "batch"
    assert (scheduled().cost, scheduled().priority) == (2.5, 3)
    assert scheduled().deadline == pytest.approx(scheduled().submitted + 3_600_000, abs=50)


@tq.task(tenant=lambda args, kwargs, options: args[0]["account"])
def letter(order):
    return order["account"]


def test_a_function_finds_what_is_deeper_inside(scheduled):
    letter.delay({"account": "acme", "lines": []}).get(timeout=30)

    assert scheduled().tenant == "acme"


def test_a_name_that_no_parameter_has_is_an_error_at_once():
    with pytest.raises(OptionError, match="acount"):

        @tq.task(tenant="acount")
        def misspelt(account): ...


@shared_task(base=TQTask, tenant="account")
def shared(account):
    return account


def test_a_shared_task_has_a_base_class_for_it(scheduled):
    shared.delay("acme").get(timeout=30)

    assert scheduled().tenant == "acme"


# --- at the call ---------------------------------------------------------------------------------


def test_a_call_may_say_otherwise(scheduled):
    report.apply_async(["acme"], tenant="globex", cost=3, priority=200).get(timeout=30)

    assert scheduled().tenant == "globex"
    assert (scheduled().cost, scheduled().priority) == (3, 200)


def test_a_deadline_is_seconds_from_now_or_a_moment_with_a_time_zone(scheduled):
    report.apply_async(["acme"], deadline=30).get(timeout=30)
    assert scheduled().deadline == pytest.approx(scheduled().submitted + 30_000, abs=50)

    moment = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)
    report.apply_async(["acme"], deadline=moment).get(timeout=30)
    assert scheduled().deadline == moment.timestamp() * 1000


@pytest.mark.parametrize(
    "option", [{"priority": 256}, {"cost": 0}, {"deadline": -1}, {"tenant": "x" * 257}]
)
def test_a_value_out_of_range_is_an_error_at_the_call(option):
    with pytest.raises(OptionError, match=next(iter(option))):
        report.apply_async(["acme"], **option)


# --- from around the call ------------------------------------------------------------------------


@tq.task
def thumbnail(picture):
    return picture


def test_without_a_tenant_the_work_is_for_the_default_one(scheduled):
    thumbnail.delay("a.png").get(timeout=30)

    assert scheduled().tenant == "default"


def test_a_block_says_it_for_everything_sent_inside(scheduled):
    with tq.tenant("acme"):  # a web framework's middleware does this once per request
        thumbnail.delay("a.png").get(timeout=30)

    assert scheduled().tenant == "acme"


@tq.task(tenant="account", priority=9)
def gallery(account):
    thumbnail.delay("b.png")


def test_a_task_sent_from_a_task_is_for_the_same_tenant(totals, scheduled):
    gallery.delay("acme").get(timeout=30)

    assert scheduled().tenant == "acme"
    assert scheduled().priority == 9


def test_so_is_the_rest_of_a_chain(scheduled):
    work = chain(report.si("acme"), thumbnail.si("c.png"))

    assert work.delay().get(timeout=30) == "c.png"
    assert scheduled().tenant == "acme"


# --- by name -------------------------------------------------------------------------------------


@app.task(name="shop.legacy.sync")
def sync(account):
    return account


def test_a_route_schedules_tasks_that_nobody_decorated(scheduled):
    app.send_task("shop.legacy.sync", kwargs={"account": "acme"}).get(timeout=30)

    assert scheduled().tenant == "acme"
    assert scheduled().priority == 7


@tq.task(name="shop.legacy.renewed", priority=1)
def renewed(account):
    return account


def test_a_route_completes_a_declaration_and_does_not_change_it(scheduled):
    renewed.delay("acme").get(timeout=30)

    assert scheduled().tenant == "acme"
    assert scheduled().priority == 1
