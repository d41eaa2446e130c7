"""Django: tasks of its task class, and sending when a transaction commits (celery/celery #8976)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import django
import pytest
from celery import Celery, _state, shared_task, signals
from celery.contrib.django.task import DjangoTask
from django.conf import settings
from django.db import connections, transaction

from tests.celery.recording import Lab, noop
from tq_celery import TQ, OptionError, SettingsError, TQTask


@pytest.fixture(scope="module", autouse=True)
def _project() -> Iterator[None]:
    """Set Django up in this process, without a settings module, on two databases in memory."""
    if not settings.configured:
        memory = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
        settings.configure(DATABASES={"default": memory, "other": dict(memory)}, USE_TZ=True)
        django.setup()
    yield
    connections.close_all()


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Lab:
    """An application that Celery fixed up for Django: its task class is DjangoTask."""
    monkeypatch.setattr(_state, "default_app", _state.default_app)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for signal in (signals.import_modules, signals.worker_init):
        monkeypatch.setattr(signal, "receivers", list(signal.receivers))
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "set.up.without.a.module")
    lab = Lab()
    monkeypatch.delenv("DJANGO_SETTINGS_MODULE")
    assert lab.app.task_cls == "celery.contrib.django.task:DjangoTask"
    return lab


def give(account: str) -> None: ...


def declared(lab: Lab, **options: Any) -> Any:
    return lab.tq.task(name="give", **{"tenant": "account", **options})(give)


def test_what_the_call_says_is_sent_at_the_commit(lab: Lab) -> None:
    """Seen to fail with Celery's own method: the tenant of the moment of the commit."""
    task = lab.tq.task(name="noop")(noop)
    with transaction.atomic():
        with lab.tq.tenant("acme"):
            assert task.delay_on_commit() is None
            task.apply_async_on_commit((), cost=3, priority=7, countdown=5, queue="side")
        task.apply_async_on_commit(tenant="vip")
        assert lab.taken == []
    assert [(s.tenant, s.cost, s.priority, s.delay, s.queue) for s in lab.taken] == [
        (b"acme", 1.0, 0, None, "celery"),
        (b"acme", 3.0, 7, 5000, "side"),
        (b"vip", 1.0, 0, None, "celery"),
    ]


def test_rules_are_asked_at_the_call_and_once(lab: Lab) -> None:
    current = ["acme"]
    asked: list[Any] = []

    def whose(args: Any, kwargs: Any, options: Any) -> str:
        asked.append((args, kwargs))
        return current[0]

    task = declared(lab, tenant=whose)
    with transaction.atomic():
        task.delay_on_commit("x")
        current[0] = "another"
    assert lab.taken[0].tenant == b"acme"
    assert asked == [(("x",), {})]


def test_a_deadline_in_seconds_counts_from_the_publish(lab: Lab) -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    task = declared(lab, deadline=2)
    with transaction.atomic():
        task.delay_on_commit("acme")
        task.apply_async_on_commit(("acme",), deadline=at)
    relative, absolute = lab.taken
    assert (relative.deadline, relative.deadline_in) == (None, 2000)
    assert (absolute.deadline, absolute.deadline_in) == (at.timestamp() * 1000, None)


def test_a_rollback_sends_nothing(lab: Lab) -> None:
    task = declared(lab)
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        task.delay_on_commit("outer")
        raise ZeroDivisionError
    assert lab.taken == []


def test_a_rollback_to_a_savepoint_drops_what_was_inside(lab: Lab) -> None:
    task = declared(lab)
    with transaction.atomic():
        task.delay_on_commit("before")
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            task.delay_on_commit("inside")
            raise ZeroDivisionError
        with transaction.atomic():
            task.delay_on_commit("kept")
        task.delay_on_commit("after")
        assert lab.taken == []
    assert [s.tenant for s in lab.taken] == [b"before", b"kept", b"after"]


def test_outside_a_transaction_it_is_sent_at_once(lab: Lab) -> None:
    task = declared(lab)
    assert task.delay_on_commit("acme") is None
    assert task.apply_async_on_commit(("acme",), task_id="my-own") is None
    assert [s.key.id == "my-own" for s in lab.taken] == [False, True]


def test_using_names_the_database(lab: Lab) -> None:
    task = declared(lab)
    with transaction.atomic(using="other"):
        task.apply_async_on_commit(("other",), using="other")
        task.apply_async_on_commit(("default",))
        assert [s.tenant for s in lab.taken] == [b"default"]
    assert [s.tenant for s in lab.taken] == [b"default", b"other"]


def test_celerys_routes_count_at_the_call_as_well(lab: Lab) -> None:
    lab.app.conf.task_routes = {"give": {"queue": "side", "priority": 8}}
    task = declared(lab)
    with transaction.atomic():
        task.delay_on_commit("acme")
    assert (lab.taken[0].queue, lab.taken[0].priority) == ("side", 8)


def test_under_eager_mode_the_task_runs_at_the_commit(lab: Lab) -> None:
    """Django's own TestCase runs what waits for a commit in the same way."""
    lab.app.conf.task_always_eager = True
    ran: list[Any] = []

    @lab.tq.task(name="run", bind=True)
    def run(self: Any) -> None:
        ran.append(self.request.headers["tq"]["tenant"])

    with transaction.atomic():
        with lab.tq.tenant("acme"):
            run.delay_on_commit()
        assert ran == []
    assert ran == ["acme"]


def test_what_is_refused_fails_at_the_call(lab: Lab) -> None:
    task = declared(lab)
    with transaction.atomic():
        for bad in ({"priority": 300}, {"tenant": 1.5}, {"countdown": float("inf")}):
            with pytest.raises((OptionError, ValueError)):
                task.apply_async_on_commit(("acme",), **bad)
    assert lab.taken == []


def test_what_a_task_sends_at_a_commit_inherits_from_it(lab: Lab) -> None:
    child = lab.tq.task(name="child")(noop)

    @lab.tq.task(name="parent", tenant="account", deadline=60)
    def parent(account: str) -> None:
        with transaction.atomic():
            child.delay_on_commit()

    parent.apply_async(("acme",), priority=9)
    lab.run(lab.taken[0])
    assert (lab.taken[1].tenant, lab.taken[1].priority) == (b"acme", 9)
    assert lab.taken[1].deadline is not None


class Own(DjangoTask):
    """A base class of the project's own."""

    def apply_async_on_commit(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("headers", {})["mine"] = "commit"
        super().apply_async_on_commit(*args, **kwargs)

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        options.setdefault("cost", 5)
        return super().apply_async(args, kwargs, **options)


def by_fixup(lab: Lab) -> Any:
    return declared(lab)


def by_base(lab: Lab) -> Any:
    return declared(lab, base=Own)


def by_app_class(lab: Lab) -> Any:
    lab.app.Task = Own
    return declared(lab)


def by_shared_task(lab: Lab) -> Any:
    shared_task(base=TQTask, name="site.give", tenant="account")(give)
    lab.app.finalize()
    return lab.app.tasks["site.give"]


def by_class(lab: Lab) -> Any:
    class Give(TQTask, DjangoTask):
        name, tenant = "give", "account"

        def run(self, account: str) -> None: ...

    return lab.app.register_task(Give())


@pytest.mark.parametrize("declare", [by_fixup, by_base, by_app_class, by_shared_task, by_class])
def test_every_way_to_declare_has_both_calls(lab: Lab, declare: Any) -> None:
    """Seen to fail with our methods before the project's, and with DjangoTask's before ours."""
    task = declare(lab)
    assert isinstance(task, DjangoTask)
    own = isinstance(task, Own)
    with transaction.atomic():
        with lab.tq.tenant("ambient"):
            task.apply_async_on_commit(("acme",))
            task.apply_async_on_commit((None,))
    submission, message = lab.last()
    assert [s.tenant for s in lab.taken] == [b"acme", b"ambient"]
    assert submission.cost == (5.0 if own else 1.0), "the project's options at the commit count"
    assert message.headers.get("mine") == ("commit" if own else None)
    assert "tq_found" not in submission.payload.decode()


def test_tasks_that_are_not_scheduled_stay_djangos(lab: Lab) -> None:
    plain = lab.app.task(name="plain")(noop)
    assert isinstance(plain._get_current_object(), DjangoTask)
    assert not isinstance(plain._get_current_object(), TQTask)
    with transaction.atomic():
        plain.delay_on_commit()
        assert lab.stock() == []
    assert len(lab.stock()) == 1


def test_without_a_tq_the_calls_are_djangos() -> None:
    """A library's task in a project that has no TQ: what it sends has nothing of ours in it."""
    app = Celery("bare", broker="lab://", set_as_current=False)
    task = app.task(base=TQTask, name="give", shared=False)(give)
    with transaction.atomic():
        task.apply_async_on_commit(("acme",), task_id="t-1")
    with app.connection_for_read() as connection:
        message = connection.default_channel.basic_get("celery", no_ack=True)
    assert message.headers["id"] == "t-1"
    assert "tq_found" not in message.properties


def test_the_settings_namespace() -> None:
    """``CELERY_TQ_URL`` and its like, as ``namespace="CELERY"`` has Celery read them."""

    class Conf:
        CELERY_TQ_URL = "redis://elsewhere:7/3"
        CELERY_TQ_NAMESPACE = "shop"
        CELERY_TQ_DEFAULT_TENANT = "house"
        CELERY_TQ_MAX_PENDING = 1000
        CELERY_TASK_DEFAULT_QUEUE = "main"
        CELERY_TQ_ROUTES = {"*": {"tenant": {"const": "routed"}}}  # noqa: RUF012

    app = Celery("project", set_as_current=False)
    app.config_from_object(Conf, namespace="CELERY")
    tq = TQ(app)
    own = tq.settings
    assert (own.url, own.namespace, own.default_tenant, own.max_pending) == (
        "redis://elsewhere:7/3", "shop", "house", 1000,
    )  # fmt: skip
    rules = tq.routes.rules_of("any")
    assert rules is not None
    assert rules.fixed == {"tenant": b"routed"}
    assert app.conf.task_default_queue == "main"


def test_a_misspelt_setting_of_the_namespace_is_told() -> None:
    class Conf:
        CELERY_TQ_NAMESPCE = "shop"

    app = Celery("project", set_as_current=False)
    app.config_from_object(Conf, namespace="CELERY")
    with pytest.raises(SettingsError, match="did you mean 'tq_namespace'"):
        TQ(app).settings  # noqa: B018


def test_the_methods_say_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "django.db", None)
    with pytest.raises(ImportError, match="django"):
        Lab().tq.task(name="noop", shared=False)(noop).delay_on_commit()
