"""What an application does with task classes goes on working on scheduled tasks."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Task, shared_task, signals
from pydantic import BaseModel

from tests.celery.recording import Lab, noop
from tests.celery.test_sending_options import Pair
from tq_celery import OptionError, TQTask, const


class Marking(Task):
    """A base class that takes part in sending and running, as applications write them."""

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        options.setdefault("headers", {})["marked"] = "sent"
        return super().apply_async(args, kwargs, **options)

    def apply(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        options["priority"] = options.pop("urgency", 0)
        return super().apply(args, kwargs, **options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return "called", super().__call__(*args, **kwargs)


def give(account: str) -> str:
    return account


def by_decorator(lab: Lab) -> Any:
    return lab.tq.task(name="give", base=Marking, tenant="account")(give)


def by_app_class(lab: Lab) -> Any:
    lab.app.Task = Marking
    return lab.tq.task(name="give", tenant="account")(give)


def by_context_task(lab: Lab) -> Any:
    """The way of Flask's documentation: a subclass of the application's own class."""

    class ContextTask(Marking, lab.app.Task):  # type: ignore[name-defined]
        pass

    lab.app.Task = ContextTask
    return lab.tq.task(name="give", tenant="account")(give)


def by_task_cls(lab: Lab) -> Any:
    lab.app.task_cls = Marking
    return lab.tq.task(name="give", tenant="account")(give)


def by_shared_task(lab: Lab) -> Any:
    lab.app.Task = Marking
    task = shared_task(base=TQTask, name="give", tenant="account")(give)
    lab.app.finalize()
    assert task.name == "give"
    return lab.app.tasks["give"]


def by_plain_decorator(lab: Lab) -> Any:
    class Joined(Marking, TQTask):
        abstract = True

    return lab.app.task(base=Joined, name="give", tenant="account")(give)


def by_class(lab: Lab) -> Any:
    class Give(Marking, TQTask):
        name, tenant = "give", "account"

        def run(self, account: str) -> str:
            return account

    return lab.app.register_task(Give())


@pytest.mark.parametrize(
    "declare",
    [
        by_decorator,
        by_app_class,
        by_context_task,
        by_task_cls,
        by_shared_task,
        by_plain_decorator,
        by_class,
    ],
)
def test_a_base_class_of_the_applications_own_keeps_its_part(declare: Any) -> None:
    """Seen to fail with our class before the application's, and with ``app.Task`` left out."""
    lab = Lab()
    task = declare(lab)
    task.delay("acme")
    submission, message = lab.last()
    assert submission.tenant == b"acme"
    assert message.headers["marked"] == "sent"
    assert task("acme") == ("called", "acme")
    result = task.apply(("acme",))
    assert result.get() == ("called", "acme")
    with pytest.raises(OptionError, match="priority"):
        task.apply(("acme",), urgency=-1)


def test_plain_app_task_based_on_ours_is_scheduled() -> None:
    lab = Lab()
    lab.app.task(base=TQTask, name="give", tenant="account", cost=3)(give).delay("acme")
    assert (lab.taken[0].tenant, lab.taken[0].cost) == (b"acme", 3.0)


class Order(BaseModel):
    account: str
    pages: int


def test_pydantic_arguments_reach_rules_as_they_are_sent() -> None:
    """A rule gets what the message gets: a model's plain data."""
    lab = Lab()

    @lab.tq.task(
        name="print", pydantic=True, tenant="who",
        cost=lambda args, kwargs, options: args[1]["pages"],
    )  # fmt: skip
    def print_order(who: str, order: Order) -> int:
        return order.pages

    print_order.delay("acme", Order(account="a", pages=7))
    submission, message = lab.last()
    assert (submission.tenant, submission.cost) == (b"acme", 7.0)
    assert message.body.startswith(b'[["acme", {"account": "a", "pages": 7}], {}')
    assert print_order.apply(("acme", {"account": "a", "pages": 2})).get() == 2


def test_celerys_own_options_of_a_task_stand_beside_ours() -> None:
    lab = Lab()

    @lab.tq.task(
        name="try", bind=True, tenant="account", autoretry_for=(OSError,), max_retries=2,
        retry_backoff=7, retry_jitter=False, serializer="pickle", compression="zlib",
        expires=90, time_limit=9, soft_time_limit=8, ignore_result=True,
    )  # fmt: skip
    def attempt(self: Any, account: str) -> None:
        raise OSError

    lab.app.conf.accept_content = ["json", "pickle"]
    result = attempt.delay("acme")
    submission, message = lab.last()
    assert submission.tenant == b"acme"
    assert message.content_type == "application/x-python-serialize"
    assert message.headers["compression"] == "application/x-gzip"
    assert message.headers["timelimit"] == [9, 8]
    assert message.headers["expires"]
    assert message.headers["ignore_result"] is True
    assert result.ignored is True
    assert (attempt.max_retries, attempt.autoretry_for) == (2, (OSError,))


def test_routes_complete_a_declaration() -> None:
    """Each option for itself: the call, the declaration, the first route that matches, the rest.

    Seen to fail while declared tasks were not looked up in the routes.
    """
    lab = Lab(
        settings={
            "routes": {
                "shop.report": {"tenant": "account", "cost": 4, "priority": 2},
                "shop.*": {"tenant": const("rest"), "deadline": 60},
            }
        }
    )
    report = lab.tq.task(name="shop.report", cost=9)(give)
    own = lab.tq.task(name="shop.own", tenant="account")(give)
    bare = lab.tq.task(name="shop.bare")(noop)
    other = lab.tq.task(name="other")(noop)
    with lab.tq.tenant("ambient"):
        report.delay("acme")
        report.apply_async(("acme",), priority=5, cost=1)
        own.delay("acme")
        bare.delay()
        other.delay()
        lab.app.send_task("shop.report", ("acme",))
        lab.app.send_task("shop.elsewhere")
    assert [(s.tenant, s.cost, s.priority, s.deadline_in) for s in lab.taken] == [
        (b"acme", 9.0, 2, None),
        (b"acme", 1.0, 5, None),
        (b"acme", 1.0, 0, 60_000),
        (b"rest", 1.0, 0, 60_000),
        (b"ambient", 1.0, 0, None),
        (b"acme", 9.0, 2, None),
        (b"rest", 1.0, 0, 60_000),
    ]


def test_a_route_that_names_no_parameter_of_a_declared_task_fails_at_the_call() -> None:
    lab = Lab(settings={"routes": {"*": {"tenant": "acount"}}})
    with pytest.raises(OptionError, match=r"tenant: 'acount' .* parameter of give \(account\)"):
        lab.tq.task(name="give")(give).delay("acme")


def test_celerys_routes_may_give_the_priority() -> None:
    """Before what is inherited and the default, after the call, the declaration and tq_routes."""
    lab = Lab(
        task_routes={"a*": {"priority": 4}, "broken": {"priority": "high"}},
        settings={"routes": {"ab": {"priority": 6}}},
    )
    cases: list[tuple[str, dict[str, Any], dict[str, Any], int]] = [
        ("a", {}, {}, 4),
        ("a1", {"priority": 2}, {}, 2),
        ("a2", {}, {"priority": 9}, 9),
        ("ab", {}, {}, 6),
        ("broken", {}, {}, 0),
        ("b", {}, {}, 0),
    ]
    for name, declared, call, expected in cases:
        lab.tq.task(name=name, **declared)(noop).apply_async(**call)
        assert lab.last()[0].priority == expected, name
        assert lab.last()[1].headers["tq"]["priority"] == expected, name


def test_signals_say_what_they_say_on_stock_celery() -> None:
    """Once each, from the same sender, with the same exchange and routing key."""
    pair = Pair(task_send_sent_event=True)
    heard: list[tuple[Any, ...]] = []

    def before(sender: str, headers: Any, properties: Any, **told: Any) -> None:
        found = {k: told[k] for k in ("exchange", "routing_key", "retry_policy")}
        heard.append(("before", sender, found, properties["correlation_id"], "id" in headers))

    def after(sender: str, headers: Any, **told: Any) -> None:
        heard.append(("after", sender, told["exchange"], told["routing_key"], headers["task"]))

    signals.before_task_publish.connect(before)
    signals.after_task_publish.connect(after)
    try:
        said = []
        for app, task in ((pair.stock, pair.plain), (pair.lab.app, pair.scheduled)):
            events: list[Any] = []
            with app.connection_for_read() as connection:
                receiver = app.events.Receiver(connection, handlers={"task-sent": events.append})
                with receiver.consumer_context(wakeup=False):
                    task.apply_async((1,), queue="other", task_id="t-1")
                    task.apply_async((1,), queue="video", task_id="t-1")
                    list(receiver.consume(limit=2, timeout=2, wakeup=False))
            fields = ("name", "queue", "exchange", "routing_key", "uuid", "args", "retries")
            said.append([*heard, *({f: e.get(f) for f in fields} for e in events)])
            heard.clear()
    finally:
        signals.before_task_publish.disconnect(before)
        signals.after_task_publish.disconnect(after)
    stock, scheduled = said
    assert len(stock) == 6
    assert scheduled == stock
