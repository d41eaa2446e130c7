"""Moving over by degrees: an id is always on one side, and the other side is stock Celery."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery, chain, shared_task
from kombu import Queue

from tests.celery.recording import Lab
from tq_celery import TQ, OptionError, TQTask
from tq_celery.detour import broker_priority, is_scheduled

IDS = [f"id-{number}" for number in range(2_000)]


def nothing(*_: Any, **__: Any) -> None: ...


def lab_with(fraction: float | None = None, **options: Any) -> tuple[Lab, Any]:
    settings = {} if fraction is None else {"fraction": fraction}
    lab = Lab(settings=settings)
    return lab, lab.tq.task(name="lab.nothing", **options)(nothing)


def test_the_share_is_stable_exact_at_its_ends_and_grows() -> None:
    for fraction in (0.05, 0.5, 0.9):
        inside = {each for each in IDS if is_scheduled(each, fraction)}
        assert abs(len(inside) / len(IDS) - fraction) < 0.04
        assert inside == {each for each in IDS if is_scheduled(each, fraction)}
        assert inside <= {each for each in IDS if is_scheduled(each, fraction + 0.05)}
    assert not any(is_scheduled(each, 0.0) for each in IDS)
    assert all(is_scheduled(each, 1.0) for each in IDS)


def test_calls_are_split_by_their_ids_and_counted() -> None:
    lab, task = lab_with(0.5)
    ids = [task.delay().id for _ in range(60)]
    inside = [each for each in ids if is_scheduled(each, 0.5)]
    assert [each.key.id for each in lab.taken] == inside
    assert [each["id"] for each in lab.stock()] == [each for each in ids if each not in inside]
    assert lab.tq.counts.fraction == len(ids) - len(inside)
    assert str(lab.tq.counts) == f"Counts(fraction={len(ids) - len(inside)}, unavailable=0)"
    lab.taken.clear()
    again = lab.tq.submit_many((task, (), {}, {"task_id": each}) for each in ids)
    assert again == ids
    assert [each.key.id for each in lab.taken] == inside


@pytest.mark.parametrize(("fraction", "scheduled"), [(0, 0), (1, 20)])
def test_none_and_all(fraction: float, scheduled: int) -> None:
    lab, task = lab_with(fraction)
    for _ in range(20):
        task.delay()
    assert (len(lab.taken), len(lab.stock())) == (scheduled, 20 - scheduled)


def test_what_goes_to_the_broker_is_what_stock_celery_sends() -> None:
    """Byte for byte, but for the header from which the tasks it sends inherit."""
    lab, task = lab_with(0, tenant="account")
    task.apply_async(
        (1,), {"account": "acme"}, task_id="x", countdown=60, cost=3, deadline=9, queue="celery"
    )
    (ours,) = lab.stock()
    stock = Lab()
    stock.app.task(name="lab.nothing")(nothing).apply_async(
        (1,), {"account": "acme"}, task_id="x", countdown=60, queue="celery"
    )
    (theirs,) = stock.stock()
    header = ours.pop("tq")
    assert (header["tenant"], header["cost"]) == ("acme", 3.0)
    assert ours.pop("eta") is not None
    assert theirs.pop("eta") is not None
    assert ours == theirs


def test_a_naive_eta_is_the_same_instant_on_either_side() -> None:
    lab = Lab(settings={"fraction": 0}, timezone="Europe/Berlin")
    lab.tq.task(name="lab.nothing")(nothing).apply_async(eta="2030-06-01T12:00:00")
    assert lab.stock()[0]["eta"] == "2030-06-01T12:00:00+02:00"


def test_a_bad_option_is_an_error_on_either_way() -> None:
    _, task = lab_with(0)
    with pytest.raises(OptionError, match="priority: 300"):
        task.apply_async(priority=300)


def test_the_task_its_route_and_the_setting_in_this_order() -> None:
    lab = Lab(settings={"fraction": 0, "routes": {"far.*": {"fraction": 1, "tenant": "t"}}})
    own = lab.tq.task(name="lab.own", fraction=1)(nothing)
    plain = lab.tq.task(name="lab.plain")(nothing)
    far = lab.app.task(name="far.away")(nothing)

    class Declared(TQTask):
        name, fraction = "lab.declared", 1.0

        def run(self) -> None: ...

    declared = lab.app.register_task(Declared())
    for each in (own, far, declared, plain):
        each.delay()
    names = [sent["task"] for sent in lab.stock()]
    assert (len(lab.taken), names) == (3, ["lab.plain"])


def test_shared_tasks_take_them_too() -> None:
    lab = Lab(settings={"fraction": 0})

    @shared_task(base=TQTask, name="lab.shared", fraction=1, on_unavailable="broker")
    def shared() -> None: ...

    found = lab.tq.routes.rules_of("lab.shared", lab.app.tasks["lab.shared"])
    assert found is not None
    assert (found.fraction, found.on_unavailable) == (1.0, "broker")


@pytest.mark.parametrize(
    "option", [{"fraction": 1.5}, {"fraction": "half"}, {"on_unavailable": "no"}]
)
def test_bad_declarations_are_said_at_once(option: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(option))):
        Lab().tq.task(**option)(nothing)


def test_members_of_a_workflow_go_by_their_own_ids() -> None:
    lab, task = lab_with(0.5)
    inside = next(each for each in IDS if is_scheduled(each, 0.5))
    outside = next(each for each in IDS if not is_scheduled(each, 0.5))
    first = task.si().set(task_id=outside, tenant="acme")
    chain(first, task.si().set(task_id=inside)).apply_async()
    (sent,) = lab.stock()
    lab.run(sent, token=None)
    assert [each.key.id for each in lab.taken] == [inside]
    assert lab.taken[0].tenant == b"acme"


def test_a_retry_stays_on_its_side_with_its_tenant_and_priority() -> None:
    """A retry copies the broker's priority from its message: that is not taken for one of ours."""
    lab = Lab(settings={"fraction": 0})

    @lab.tq.task(name="lab.again", bind=True, max_retries=5)
    def again(self: Any) -> None:
        raise self.retry(countdown=0)

    again.apply_async(tenant="acme", priority=5)
    for _ in range(3):
        (sent,) = lab.stock()
        assert sent["tq"]["tenant"] == "acme"
        assert sent["tq"]["priority"] == 5
        lab.run(sent, token=None, priority=2)  # as some broker might have numbered it
    assert lab.taken == []


def test_a_retry_of_a_scheduled_task_is_scheduled_whatever_the_fraction_is_now() -> None:
    lab = Lab()

    @lab.tq.task(name="lab.again", bind=True)
    def again(self: Any) -> None:
        raise self.retry()

    again.delay()
    vars(lab.tq)["settings"] = type(lab.tq.settings)(fraction=0)
    lab.run(lab.taken[0])
    assert (len(lab.taken), lab.stock()) == (2, [])


@pytest.mark.parametrize(
    ("broker", "queue", "priority", "expected"),
    [
        ("redis://", "q", 0, 9),
        ("redis://", "q", 3, 6),
        ("redis://", "q", 200, 0),
        ("sentinel://", "q", 9, 0),
        ("amqp://", "q", 200, 200),
        ("amqp://", "ten", 200, 10),
        ("amqp://", "ten", 4, 4),
        ("memory://", "q", 200, 9),
    ],
)
def test_priorities_are_those_of_the_broker(
    broker: str, queue: str, priority: int, expected: int
) -> None:
    """Kombu's Redis has 0 for the most urgent; RabbitMQ has ours, up to the queue's maximum."""
    app = Celery("p", broker=broker, set_as_current=False)
    app.conf.task_queues = [Queue("q"), Queue("ten", queue_arguments={"x-max-priority": 10})]
    assert broker_priority(app, queue, priority) == expected


def test_only_a_priority_that_was_given_is_translated() -> None:
    lab, task = lab_with(0)
    sent: list[Any] = []
    lab.tq.publisher._original = lambda *args, **options: sent.append(options.get("priority"))
    task.delay()
    task.apply_async(priority=0)
    task.apply_async(priority=4)
    assert sent == [None, 0, 4]
    app = Celery("p", broker="redis://", set_as_current=False)
    tq = TQ(app, fraction=0)
    tq.publisher._original = lab.tq.publisher._original
    tq.task(name="p.nothing")(nothing).apply_async(priority=4)
    assert sent[-1] == 5
