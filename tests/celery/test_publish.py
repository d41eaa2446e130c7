"""Sending scheduled tasks: what reaches the store, and what fails at the call."""

from __future__ import annotations

import os
import pickle
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery import Celery, signals
from kombu import Exchange, Queue
from kombu.common import Broadcast

from tests.celery.recording import Lab, add, noop
from tq_celery import TQ, OptionError, SettingsError, UnsupportedTaskError, const
from tq_celery.options import Deadline
from tq_celery.store.record import TaskKey


@pytest.fixture
def lab() -> Lab:
    return Lab()


def test_a_decorated_call_becomes_one_submission(lab: Lab) -> None:
    result = add(lab).delay(1, y=2)
    submission, message = lab.last()
    assert len(lab.taken) == 1
    assert submission.key == TaskKey(result.id)
    assert submission.queue == "celery"
    assert (submission.tenant, submission.cost, submission.priority) == (b"default", 1.0, 0)
    assert submission.delay is submission.due is submission.deadline is None
    assert submission.deadline_in is None
    assert submission.parent is None
    assert message.headers["task"] == "lab.add"
    assert message.headers["tq"] == {"tenant": "default", "priority": 0, "cost": 1.0}
    assert message.body.startswith(b'[[1], {"y": 2}, ')
    assert lab.stock() == []


def test_options_of_the_declaration_and_of_the_call(lab: Lab) -> None:
    task = add(lab, tenant="x", cost=2, priority=3, deadline=60)
    task.delay("acme")
    submission, _ = lab.last()
    assert (submission.tenant, submission.cost, submission.priority) == (b"acme", 2.0, 3)
    assert submission.deadline_in == 60_000
    at = datetime(2030, 1, 1, tzinfo=UTC)
    task.apply_async(("acme",), tenant="vip", cost=0.5, priority=9, deadline=at)
    submission, message = lab.last()
    assert (submission.tenant, submission.cost, submission.priority) == (b"vip", 0.5, 9)
    assert submission.deadline == int(at.timestamp() * 1000)
    assert submission.deadline_in is None
    assert message.headers["tq"]["deadline"] == submission.deadline
    assert message.properties["priority"] == 9


def test_a_rule_is_not_asked_when_the_call_has_the_option(lab: Lab) -> None:
    add(lab, cost="x").apply_async(("not a number",), cost=4)
    assert lab.last()[0].cost == 4.0


def test_signature_set_counts_as_the_call(lab: Lab) -> None:
    add(lab, tenant="x").s("a").set(tenant="vip", deadline=timedelta(seconds=2)).delay()
    submission, _ = lab.last()
    assert (submission.tenant, submission.deadline_in) == (b"vip", 2000)


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("tenant", "x" * 257, "at most 256 bytes"),
        ("tenant", 1.5, "at most 256 bytes"),
        ("cost", 0, "1e-6 to 1e9"),
        ("cost", float("nan"), "1e-6 to 1e9"),
        ("cost", 1e10, "1e-6 to 1e9"),
        ("priority", 256, "0 to 255"),
        ("priority", -1, "0 to 255"),
        ("priority", True, "0 to 255"),
        ("deadline", 0, "above 0"),
        ("deadline", datetime(2030, 1, 1), "time zone"),  # noqa: DTZ001
    ],
)
@pytest.mark.parametrize("eager", [False, True])
def test_bad_options_fail_at_the_call_eagerly_too(
    option: str, value: object, allowed: str, eager: bool
) -> None:
    """celery/celery #4008: what passes eagerly must not fail in production."""
    lab = Lab(task_always_eager=eager)
    with pytest.raises(OptionError, match=f"{option}: .* is not allowed; expected .*{allowed}"):
        add(lab).apply_async((1,), **{option: value})
    assert lab.taken == []


def test_bad_values_of_parameters_fail_at_the_call_eagerly_too() -> None:
    lab = Lab(task_always_eager=True)
    with pytest.raises(OptionError, match="cost"):
        add(lab, cost="y").delay(1, y=-1)


def test_eager_needs_no_server(lab: Lab) -> None:
    """celery/celery #4008."""
    lab = Lab(task_always_eager=True, settings={"url": "redis://127.0.0.1:1/0"})
    seen: list[Any] = []

    @lab.tq.task(name="lab.see", bind=True, tenant="who")
    def see(self: Any, who: str) -> str:
        seen.append(self.request.headers["tq"])
        return who

    assert see.apply_async(("acme",), priority=4, countdown=60).get() == "acme"
    assert seen == [{"tenant": "acme", "priority": 4, "cost": 1.0}]
    assert lab.taken == []


def test_a_task_without_a_tenant_gets_the_default_one() -> None:
    lab = Lab(settings={"default_tenant": "house"})
    task = add(lab, tenant="y")
    task.delay(1, y=None)
    assert lab.last()[0].tenant == b"house"


def test_ambient_tenant_reaches_what_names_none(lab: Lab) -> None:
    plain, declared = add(lab), lab.tq.task(name="lab.own", tenant=const("own"))(noop)
    with lab.tq.tenant("acme"):
        plain.delay(1)
        assert lab.last()[0].tenant == b"acme"
        declared.delay()
        assert lab.last()[0].tenant == b"own"
        plain.apply_async((1,), tenant="vip")
        assert lab.last()[0].tenant == b"vip"
        with lab.tq.tenant(None):
            plain.delay(1)
            assert lab.last()[0].tenant == b"default"
    plain.delay(1)
    assert lab.last()[0].tenant == b"default"
    with pytest.raises(OptionError):
        with lab.tq.tenant("x" * 300):
            pass


def test_countdown_travels_as_a_delay(lab: Lab) -> None:
    """A countdown is counted by the store's clock, so it must not become a time here."""
    task = add(lab)
    task.apply_async((1,), countdown=1.0005)
    submission, message = lab.last()
    assert (submission.delay, submission.due) == (1001, None)
    assert message.headers["eta"] is None
    for none in (0, -5):
        task.apply_async((1,), countdown=none)
        assert lab.last()[0].delay is None


@pytest.mark.parametrize("countdown", [float("inf"), float("nan"), 1e12, "soon", [1]])
def test_a_countdown_that_is_no_time_fails_at_the_call(lab: Lab, countdown: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        add(lab).apply_async((1,), countdown=countdown)
    assert lab.taken == []


def test_eta_travels_as_a_time() -> None:
    lab = Lab(timezone="Europe/Berlin")
    task = add(lab)
    aware = datetime(2030, 6, 1, 12, tzinfo=ZoneInfo("Asia/Tokyo"))
    task.apply_async((1,), eta=aware)
    assert lab.last()[0].due == int(aware.timestamp() * 1000)
    naive = datetime(2030, 6, 1, 12)  # noqa: DTZ001
    expected = int(naive.replace(tzinfo=ZoneInfo("Europe/Berlin")).timestamp() * 1000)
    for eta in (naive, naive.isoformat(), "2030-06-01T12:00:00+02:00"):
        task.apply_async((1,), eta=eta)
        assert lab.last()[0].due == expected
    assert lab.last()[1].headers["eta"] is None


def test_both_signals_and_the_old_one_fire_once(lab: Lab) -> None:
    calls: list[str] = []
    task = add(lab)

    def before(sender: str, headers: Any, **_: Any) -> None:
        headers["mine"] = "x"
        calls.append("before " + sender)

    def after(sender: str, **_: Any) -> None:
        calls.append("after " + sender)
        assert len(lab.taken) == 1

    signals.before_task_publish.connect(before)
    signals.after_task_publish.connect(after)
    try:
        task.delay(1)
    finally:
        signals.before_task_publish.disconnect(before)
        signals.after_task_publish.disconnect(after)
    assert calls == ["before lab.add", "after lab.add"]
    assert lab.last()[1].headers["mine"] == "x"


def test_task_sent_reaches_event_receivers_once() -> None:
    lab = Lab(task_send_sent_event=True)
    seen: list[Any] = []
    with lab.app.connection_for_read() as connection:
        receiver = lab.app.events.Receiver(connection, handlers={"task-sent": seen.append})
        with receiver.consumer_context(wakeup=False):
            result = add(lab).delay(1)
            list(receiver.consume(limit=1, timeout=2, wakeup=False))
    assert [(each["uuid"], each["queue"]) for each in seen] == [(result.id, "celery")]
    assert len(lab.taken) == 1


def test_the_rpc_backend_hears_of_the_call() -> None:
    lab = Lab(backend="rpc://")
    task = add(lab)
    task.delay(1)
    task.apply_async((1,), producer=lab.app.amqp.Producer(lab.app.connection_for_write()))
    assert len(lab.taken) == 2
    assert lab.last()[1].properties["reply_to"] == lab.app.thread_oid
    assert lab.app.pool._resource.qsize() + len(lab.app.pool._dirty) <= lab.app.pool.limit


def test_producer_and_connection_arguments_are_tolerated(lab: Lab) -> None:
    task = add(lab)
    with lab.app.connection_for_write() as connection:
        task.apply_async((1,), connection=connection)
        task.apply_async((1,), producer=lab.app.amqp.Producer(connection))
        lab.app.send_task("lab.add", (1,), {}, None, None, "id-1", None, connection)
    assert len(lab.taken) == 3
    assert lab.taken[-1].key.id == "id-1"


def test_positional_arguments_of_send_task(lab: Lab) -> None:
    add(lab)
    lab.app.finalize()
    lab.app.send_task("lab.add", (1,), {}, 5, None, "id-1", None, None, None, None, 60)
    submission, message = lab.last()
    assert (submission.key.id, submission.delay) == ("id-1", 5000)
    assert message.headers["expires"]


def test_sending_by_name_before_the_application_is_finalized(lab: Lab) -> None:
    add(lab)
    assert not lab.app.finalized
    lab.app.send_task("lab.add", (1,))
    assert len(lab.taken) == 1


def test_routes_schedule_by_name() -> None:
    lab = Lab(
        settings={
            "routes": {
                "far.reports.*": {"tenant": "account", "cost": 4},
                "far.*": {"tenant": {"const": "rest"}, "priority": 2},
            }
        }
    )
    lab.app.send_task("far.reports.daily", kwargs={"account": "acme"})
    lab.app.send_task("far.mail", (1,))
    lab.app.send_task("near.mail", (1,))
    assert [(s.tenant, s.cost, s.priority) for s in lab.taken] == [
        (b"acme", 4.0, 0),
        (b"rest", 1.0, 2),
    ]
    assert [each["task"] for each in lab.stock()] == ["near.mail"]


def test_a_bad_route_fails_when_the_settings_are_read() -> None:
    lab = Lab(settings={"routes": {"far.*": {"cost": -1}}})
    with pytest.raises(OptionError, match="cost"):
        lab.app.send_task("far.x")
    with pytest.raises(SettingsError, match="tenant"):
        Lab(settings={"routes": {"far.*": {"tenat": "x"}}})


def test_map_and_starmap_of_a_scheduled_task_are_scheduled(lab: Lab) -> None:
    task = add(lab, tenant=const("acme"))
    task.starmap([(1, 2), (3, 4)]).apply_async()
    assert lab.last()[0].tenant == b"acme"
    assert lab.last()[1].headers["task"] == "celery.starmap"


def test_queues_of_the_call_and_of_task_routes() -> None:
    lab = Lab(task_routes={"lab.add": {"queue": "numbers"}})
    task = add(lab)
    task.delay(1)
    assert lab.last()[0].queue == "numbers"
    task.apply_async((1,), queue="other")
    assert lab.last()[0].queue == "other"


def test_a_topic_exchange_that_reaches_one_queue() -> None:
    topic = Exchange("media", type="topic")
    lab = Lab(
        task_queues=[
            Queue("celery"),
            Queue("video", topic, routing_key="video.#"),
            Queue("all", topic, routing_key="*.thumb"),
        ]
    )
    task = add(lab)
    task.apply_async((1,), exchange="media", routing_key="video.encode.fast")
    assert lab.last()[0].queue == "video"
    task.apply_async((1,), queue="video")
    assert lab.last()[0].queue == "video"
    for key in ("video.thumb", "audio.encode"):
        with pytest.raises(UnsupportedTaskError, match="exactly one"):
            task.apply_async((1,), exchange="media", routing_key=key)
    assert len(lab.taken) == 2


def test_what_fans_out_fails_at_the_call() -> None:
    fan = Exchange("fan", type="fanout")
    lab = Lab(task_queues=[Queue("celery"), Broadcast("shout"), Queue("one", fan)])
    task = add(lab)
    for options in ({"queue": "shout"}, {"queue": "one"}, {"exchange": fan, "routing_key": "x"}):
        with pytest.raises(UnsupportedTaskError, match="fans out"):
            task.apply_async((1,), **options)
    assert lab.taken == []


def test_protocol_1_fails_at_the_call() -> None:
    lab = Lab(task_protocol=1)
    with pytest.raises(UnsupportedTaskError, match="task_protocol = 2"):
        add(lab).delay(1)


def test_a_body_that_has_no_json_form_fails_at_the_call(lab: Lab) -> None:
    with pytest.raises(Exception, match="JSON serializable"):
        add(lab).delay(object())
    assert lab.taken == []


def test_pickle_and_compression_survive(lab: Lab) -> None:
    lab.app.conf.accept_content = ["pickle", "json"]
    add(lab).apply_async(({1, 2},), serializer="pickle", compression="zlib")
    _, message = lab.last()
    import zlib

    assert pickle.loads(zlib.decompress(message.body))[0] == ({1, 2},)
    assert message.headers["compression"] == "application/x-gzip"


def test_the_same_call_twice_is_the_same_message(lab: Lab) -> None:
    task, other = add(lab), lab.app.task(name="lab.other")(noop)
    for _ in range(2):
        task.apply_async((1,), task_id="a", countdown=5, expires=60, deadline=9, link=other.s())
        time.sleep(0.002)
    first, second = lab.taken
    assert first.digest == second.digest
    assert first.payload != second.payload
    task.apply_async((2,), task_id="a")
    assert lab.taken[-1].digest != first.digest


def test_relative_deadline_is_left_to_the_stores_clock(lab: Lab) -> None:
    """The header is for those who inherit; it uses the store's clock as last seen."""
    lab.tq.producers.clock_offset = 3_600_000
    add(lab).apply_async((1,), deadline=10)
    submission, message = lab.last()
    assert submission.deadline_in == 10_000
    ahead = message.headers["tq"]["deadline"] - time.time() * 1000
    assert 3_600_000 < ahead < 3_620_000
    assert Deadline(None, 10_000).within == submission.deadline_in


def test_threads_and_forks_have_connections_of_their_own(any_server, namespace: str) -> None:
    app = Celery(namespace, broker="memory://", set_as_current=False)
    tq = TQ(app, any_server.url)
    task = tq.task(name="t.noop")(noop)
    task.delay()
    threads = [threading.Thread(target=lambda: [task.delay() for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    child = os.fork()
    if child == 0:
        try:
            for _ in range(50):
                task.delay()
        finally:
            os._exit(0)
    for thread in threads:
        thread.join()
    assert os.waitpid(child, 0)[1] == 0
    task.delay()
    with any_server.client() as client:
        assert client.xlen(f"tq:{{{namespace}}}:ingress") == 252
    tq.producers.close()
