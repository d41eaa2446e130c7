"""Declaring scheduled tasks, and attaching to an application."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from celery import Celery, Task, shared_task

from tests.celery.recording import Lab, add, noop
from tq_celery import TQ, OptionError, SettingsError, TQError, TQTask


@pytest.fixture
def lab() -> Lab:
    return Lab()


def of_account(account: str) -> None: ...


def test_one_tq_per_application(lab: Lab) -> None:
    with pytest.raises(TQError, match="'lab' has a TQ already"):
        TQ(lab.app)


def test_bad_settings_fail_where_they_are_given() -> None:
    with pytest.raises(SettingsError, match="did you mean 'policy'"):
        TQ(Celery("x", set_as_current=False), polcy="wfq")
    app = Celery("x", set_as_current=False)
    tq = TQ(app)
    app.conf.tq_default_tenant = ""
    with pytest.raises(SettingsError, match="tq_default_tenant"):
        tq.task(name="x.noop")(noop).delay()


def test_settings_set_after_attaching_count() -> None:
    app = Celery("late", set_as_current=False)
    tq = TQ(app)
    app.conf.tq_default_tenant = "later"
    assert tq.settings.default_tenant == "later"
    assert tq.settings.namespace == "late"


def test_the_application_can_be_pickled(lab: Lab) -> None:
    restored = pickle.loads(pickle.dumps(lab.app))
    # its scheduled tasks would go to the broker, without a word
    assert restored.tq.app is restored
    assert restored.tq.explicit == lab.tq.explicit
    assert restored.main == "lab"


def test_task_forms() -> None:
    lab = Lab()

    @lab.tq.task
    def bare(x: int) -> None: ...

    @lab.tq.task()
    def brackets(x: int) -> None: ...

    @lab.tq.task(bind=True, tenant="x", max_retries=7, rate_limit="5/s")
    def bound(self: Any, x: int) -> None: ...

    class Export(lab.tq.Task):  # type: ignore[name-defined]
        name = "lab.export"
        tenant, cost, priority, deadline = "x", 2, 5, 60

        def run(self, x: int) -> None: ...

    export = lab.app.register_task(Export())
    for task in (bare, brackets, bound, export):
        task.delay(4)
    assert [s.tenant for s in lab.taken] == [b"default", b"default", b"4", b"4"]
    assert (lab.taken[-1].cost, lab.taken[-1].priority, lab.taken[-1].deadline_in) == (2, 5, 60_000)
    assert (bound.max_retries, bound.rate_limit) == (7, "5/s")
    with pytest.raises(TypeError, match="keyword"):
        lab.tq.task("name")
    with pytest.raises(OptionError, match="acount"):
        lab.tq.task(tenant="acount")(of_account)
    with pytest.raises(OptionError, match="who"):

        class Bad(TQTask):
            tenant = "who"

            def run(self, x: int) -> None: ...


def test_shared_task_declared_before_any_application() -> None:
    @shared_task(base=TQTask, name="lib.report", tenant="account", priority=3)
    def report(account: str) -> None: ...

    lab = Lab()
    lab.app.finalize()
    lab.app.tasks["lib.report"].delay("acme")
    assert (lab.taken[0].tenant, lab.taken[0].priority) == (b"acme", 3)


def test_own_base_classes_are_kept(lab: Lab) -> None:
    class Base(Task):
        colour = "red"

    @lab.tq.task(base=Base, tenant="x")
    def task(x: str) -> None: ...

    assert isinstance(task._get_current_object(), Base)
    assert isinstance(task._get_current_object(), TQTask)
    assert task.colour == "red"
    task.delay("a")
    assert lab.last()[0].tenant == b"a"


def test_the_brokers_default_priority_is_a_default_here() -> None:
    lab = Lab(task_default_priority=6)
    add(lab).delay(1)
    assert lab.last()[0].priority == 6
    lab.tq.task(name="lab.nine", priority=9)(noop).delay()
    assert lab.last()[0].priority == 9
