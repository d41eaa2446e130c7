"""Every option of ``apply_async``: the task sees in its request what it sees on stock Celery.

The same call is made on a stock application and on one with a TQ; both messages are opened the way
a worker opens them, and the two requests are compared. Seen to fail with an option that the
stand-in producer swallows (``user_id``), and with stamps that were taken for options.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery import Celery
from celery.exceptions import QueueNotFound
from celery.worker.request import Request
from kombu import Exchange, Queue
from kombu.serialization import prepare_accept_content

from tests.celery.recording import TOKEN, Lab
from tq_celery import OptionError
from tq_celery.store.contract import Delivery
from tq_celery.worker.message import open_delivery

NOW = datetime(2029, 1, 1, 12, tzinfo=UTC)
CONF = {
    "timezone": "Europe/Berlin",
    "accept_content": ["json", "pickle", "yaml", "msgpack"],
    "task_queues": [
        Queue("celery"),
        Queue("other"),
        Queue("video", Exchange("media", type="topic"), routing_key="video.#"),
    ],
}
ACCEPT = prepare_accept_content(CONF["accept_content"])
#: What a broker's transport adds to the properties, and what Celery leaves there by the way.
TRANSPORT = {"delivery_mode", "delivery_tag", "delivery_info", "body_encoding"} | {
    "argsrepr", "kwargsrepr", "origin",
}  # fmt: skip
#: What our worker adds to the headers.
OURS = {"tq", "tq_token", "tq_key"}


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what differs between any two applications the same."""
    monkeypatch.setattr(Celery, "thread_oid", "oid", raising=False)
    monkeypatch.setattr(Celery, "now", lambda self: NOW)
    for module in ("celery.app.amqp", "tq_celery.publish"):
        monkeypatch.setattr(f"{module}.anon_nodename", lambda: "gen@here")


def look(x: Any = 0, y: Any = 0) -> None: ...


class Pair:
    """A stock application and one with a TQ, which make the same calls."""

    def __init__(self, **conf: Any) -> None:
        conf = {**CONF, **conf}
        self.lab = Lab(backend="cache+memory://", **conf)
        self.stock = Celery("lab", broker="lab://", backend="cache+memory://", set_as_current=False)
        self.stock.conf.update(conf)
        self.scheduled: Any = self.lab.tq.task(name="look", shared=False)(look)
        self.plain: Any = self.stock.task(name="look", shared=False)(look)
        for app in (self.lab.app, self.stock):
            app.task(name="after", shared=False)(look)
            app.finalize()
        with self.stock.connection_for_write() as connection:
            for queue in self.stock.amqp.queues.values():
                queue(connection.default_channel).declare()

    def theirs(self, queue: str) -> Request:
        with self.stock.connection_for_read() as connection:
            message = connection.default_channel.basic_get(queue, no_ack=True)
        assert message is not None, f"nothing on the stock queue {queue}"
        message.accept = ACCEPT
        return self.request(self.stock, message)

    def ours(self) -> Request:
        submission = self.lab.taken[-1]
        token = TOKEN._replace(queue=submission.queue)
        delivery = Delivery(token, submission.key.encode(), 0, submission.payload)
        return self.request(self.lab.app, open_delivery(delivery, ACCEPT))

    def request(self, app: Celery, message: Any) -> Request:
        return Request(
            message, app=app, task=app.tasks["look"], body=message.body,
            headers=message.headers, decoded=False, hostname="here",
        )  # fmt: skip


def seen(request: Request) -> dict[str, Any]:
    """Return what a task finds in its request."""
    found = {
        k: v for k, v in request.request_dict.items() if k not in OURS and k != "delivery_info"
    }
    found["properties"] = {
        name: value for name, value in found["properties"].items() if name not in TRANSPORT
    }
    found["priority"] = request.delivery_info["priority"]
    *_, found["embed"] = request._payload
    for each in ("callbacks", "errbacks"):
        for signature in found["embed"][each] or ():
            headers = signature["options"].get("headers") or {}
            headers.pop("tq", None)
            if not headers:
                signature["options"].pop("headers", None)
    found["expires_at"] = request.expires
    return found


AT = datetime(2030, 6, 1, 12, tzinfo=ZoneInfo("Asia/Tokyo"))
OPTIONS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "expires in seconds": {"expires": 60},
    "expires at": {"expires": AT},
    "expires at, as text": {"expires": "2030-06-01T12:00:00+00:00"},
    "expired already": {"expires": -5},
    "expires, a fraction": {"expires": 1.5},
    "queue by name": {"queue": "other"},
    "queue created on demand": {"queue": "third"},
    "queue object": {"queue": Queue("fourth")},
    "routing_key alone": {"routing_key": "other"},
    "exchange and routing_key": {"exchange": "media", "routing_key": "video.fast"},
    "exchange object": {"exchange": Exchange("media", type="topic"), "routing_key": "video.a"},
    "queue of a topic exchange": {"queue": "video"},
    "serializer json": {"serializer": "json"},
    "serializer pickle": {"serializer": "pickle", "args": ({1, 2}, AT)},
    "serializer yaml": {"serializer": "yaml", "args": ([1], {"a": None})},
    "serializer msgpack": {"serializer": "msgpack", "args": (b"\xff\x00", "é")},
    "values with a type": {"args": (AT, date(2020, 1, 2))},
    "compression zlib": {"compression": "zlib", "args": ("x" * 999,)},
    "compression bzip2": {"compression": "bzip2", "serializer": "pickle"},
    "headers": {"headers": {"mine": "x", "count": 3}},
    "link": {"link": "after"},
    "links": {"link": ["after", "after"], "link_error": "after"},
    "time limits": {"time_limit": 30, "soft_time_limit": 20.5},
    "ignore_result": {"ignore_result": True},
    "ignore_result, not": {"ignore_result": False},
    "task_id": {"task_id": "my-own"},
    "shadow": {"shadow": "look for acme"},
    "retry": {"retry": False},
    "retry_policy": {"retry": True, "retry_policy": {"max_retries": 9, "interval_start": 0.5}},
    "reply_to": {"reply_to": "my-queue"},
    "correlation_id": {"correlation_id": "c-1"},
    "reprs": {"argsrepr": "(***)", "kwargsrepr": "{***}"},
    "group": {"group_id": "g-1", "group_index": 3},
    "ids of a workflow": {"root_id": "r-1", "parent_id": "p-1"},
    "replaced_task_nesting": {"replaced_task_nesting": 2},
    "retries": {"retries": 4},
    "priority": {"priority": 7},
    "add_to_parent": {"add_to_parent": False},
    "delivery_mode": {"delivery_mode": 1},
    "properties": {"app_id": "shop", "user_id": "guest", "message_id": "m", "type": "t"},
    "origin": {"origin": "me@there"},
    "stamps": {"stamped_headers": ["who", "why"], "who": "acme", "why": ["a", "b"]},
    "stamps with our names": {
        "stamped_headers": ["tenant", "cost", "deadline"],
        "tenant": "acme", "cost": "dear", "deadline": ["soon"],
    },
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIONS)
def test_the_request_is_the_one_of_stock_celery(name: str) -> None:
    pair = Pair()
    options = dict(OPTIONS[name])
    options.setdefault("task_id", "t-1")
    args, kwargs = options.pop("args", (1,)), {} if "args" in OPTIONS[name] else {"y": 2}
    for app, task in ((pair.stock, pair.plain), (pair.lab.app, pair.scheduled)):
        links = {
            each: [app.tasks[n].s(9) for n in ([names] if isinstance(names, str) else names)]
            for each in ("link", "link_error")
            if (names := options.get(each))
        }
        task.apply_async(args, kwargs, **{**options, **links})

    ours = pair.ours()
    theirs = pair.theirs(pair.lab.taken[-1].queue)
    assert seen(ours) == seen(theirs)
    assert (ours.content_type, ours.content_encoding) == (
        theirs.content_type,
        theirs.content_encoding,
    )
    assert (ours.name, ours.time_limits, ours.ignore_result) == (
        theirs.name, theirs.time_limits, theirs.ignore_result,
    )  # fmt: skip


ETAS: dict[str, Any] = {
    "aware": AT,
    "text": "2030-06-01T12:00:00+02:00",
    "text, basic": "20300601T120000Z",
    "past": datetime(2020, 1, 1, tzinfo=UTC),
}


@pytest.mark.parametrize("name", ETAS)
def test_an_eta_is_the_instant_that_it_is_for_celerys_worker(name: str) -> None:
    pair = Pair()
    for task in (pair.plain, pair.scheduled):
        task.apply_async((1,), eta=ETAS[name])
    expected = pair.theirs("celery").eta.timestamp() * 1000
    assert pair.lab.taken[-1].due == expected


@pytest.mark.parametrize("moment", [datetime(2030, 6, 1, 12), "2030-06-01T12:00:00"])  # noqa: DTZ001
def test_a_naive_time_is_one_of_the_applications_zone(moment: Any) -> None:
    """sidekiq-scheduler/sidekiq-scheduler #283: a naive ETA is read in the application's zone.

    Celery's worker reads it as UTC. The same holds for ``expires``, which must not be over before
    the task is due, and for calls that a fraction sends to the broker.
    """
    berlin = datetime(2030, 6, 1, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    pair = Pair()
    pair.scheduled.apply_async((1,), eta=moment, expires=moment)
    assert pair.lab.taken[-1].due == berlin.timestamp() * 1000
    assert pair.ours().expires == berlin


@pytest.mark.parametrize("countdown", [5, 0.25, 1e6])
def test_a_countdown_is_a_delay_of_the_same_length(countdown: float) -> None:
    pair = Pair()
    for task in (pair.plain, pair.scheduled):
        task.apply_async((1,), countdown=countdown)
    delay = (pair.theirs("celery").eta - NOW).total_seconds()
    assert pair.lab.taken[-1].delay == delay * 1000


def test_a_producer_or_connection_of_the_callers_is_accepted() -> None:
    pair = Pair()
    with pair.lab.app.connection_for_write() as connection:
        producer = pair.lab.app.amqp.Producer(connection)
        for options in (
            {"connection": connection},
            {"producer": producer},
            {"publisher": producer},
        ):
            pair.scheduled.apply_async((1,), **options)
    assert len(pair.lab.taken) == 3


class Router:
    """A router of the application's own."""

    def route_for_task(self, task: str, args: Any = None, kwargs: Any = None) -> Any:
        return {"queue": "other"} if task == "look" else None


def route(name: str, args: Any, kwargs: Any, options: Any, task: Any = None, **kw: Any) -> Any:
    return {"queue": "by_function", "priority": 3} if name == "look" else None


@pytest.mark.parametrize(
    "routes",
    [
        {"look": "other"},
        {"lo*": {"queue": "other", "priority": 4}},
        [[("look", {"queue": "other"}), ("*", {"queue": "rest"})]],
        [{"nothing": "x"}, {"look": {"exchange": "media", "routing_key": "video.x"}}],
        route,
        Router(),
        "tests.celery.test_sending_options:Router",
        None,
    ],
    ids=["dict", "pattern", "list", "exchange", "function", "router", "by name", "none"],
)
def test_task_routes_lead_to_the_same_queue(routes: Any) -> None:
    pair = Pair(task_routes=routes, task_default_queue="main")
    for app, task in ((pair.stock, pair.plain), (pair.lab.app, pair.scheduled)):
        task.apply_async((1,), task_id="t-1")
        app.send_task("look", (2,), task_id="t-2")
    queue = pair.lab.taken[-1].queue
    assert [each.queue for each in pair.lab.taken] == [queue, queue]
    assert queue == ("main" if routes is None else queue) != "celery"
    pair.theirs(queue)
    assert seen(pair.ours()) == seen(pair.theirs(queue))


def test_a_missing_queue_fails_at_the_call_where_celery_says_so() -> None:
    pair = Pair(task_create_missing_queues=False)
    for task in (pair.plain, pair.scheduled):
        with pytest.raises(QueueNotFound, match="nowhere"):
            task.apply_async((1,), queue="nowhere")
        task.apply_async((1,), queue="other")
    assert [each.queue for each in pair.lab.taken] == ["other"]


@pytest.mark.parametrize("way", ["a stamp", "a visitor", "a group", "appended"])
def test_stamps_reach_the_request(way: str) -> None:
    from celery import group
    from celery.canvas import StampingVisitor

    class Visitor(StampingVisitor):
        def on_signature(self, sig: Any, **headers: Any) -> dict[str, Any]:
            return {"tenant": "stamped", "mtask": sig.name}

    pair = Pair()
    for task in (pair.plain, pair.scheduled):
        signature = task.s(1)
        if way == "a stamp":
            signature.stamp(tenant="stamped", other=[1, 2])
        elif way == "appended":
            signature.stamp(priority="a").stamp(append_stamps=True, priority="b")
        else:
            signature = group([signature]) if way == "a group" else signature
            signature.stamp(Visitor())
        signature.set(task_id="t-1") if way != "a group" else None
        signature.apply_async()
    ours, theirs = seen(pair.ours()), seen(pair.theirs("celery"))
    assert ours["stamps"] == theirs["stamps"] != {}
    assert sorted(ours["stamped_headers"]) == sorted(theirs["stamped_headers"])
    assert pair.lab.taken[-1].tenant == b"default", "a stamp is no option"


def test_options_of_signatures() -> None:
    pair = Pair()
    task = pair.scheduled
    signature = task.s(1).set(tenant="acme", priority=3, queue="other")
    assert signature.options["tenant"] == "acme"
    copy = signature.clone(kwargs={"y": 5}, cost=4)
    copy.apply_async(priority=9)
    signature.apply_async()
    signature.delay()
    task.signature((1,), {}, tenant="other", cost=2).apply_async(cost=3)
    task.si(1).set(deadline=5).apply_async()
    assert [(s.tenant, s.priority, s.cost, s.queue) for s in pair.lab.taken] == [
        (b"acme", 9, 4.0, "other"),
        (b"acme", 3, 1.0, "other"),
        (b"acme", 3, 1.0, "other"),
        (b"other", 0, 3.0, "celery"),
        (b"default", 0, 1.0, "celery"),
    ]
    assert pair.lab.taken[-1].deadline_in == 5000
    with pytest.raises(OptionError, match="priority"):
        signature.apply_async(priority=999)


def test_our_options_on_a_task_that_is_not_scheduled_do_not_reach_the_broker() -> None:
    """Only the workflow's header tells of them, for the scheduled tasks that may follow."""
    pair = Pair()
    plain = pair.lab.app.task(name="plain")(look)
    plain.apply_async((1,), tenant="acme", cost=4, deadline=9)
    with pair.lab.app.connection_for_read() as connection:
        message = connection.default_channel.basic_get("celery", no_ack=True)
    assert message.headers["tq"]["tenant"] == "acme"
    assert not {"tenant", "cost", "deadline"} & (set(message.properties) | set(message.headers))
    with pytest.raises(OptionError, match="tenant"):
        plain.apply_async((1,), tenant="x" * 300)
    plain.s(1).stamp(tenant="stamped").apply_async()
    with pair.lab.app.connection_for_read() as connection:
        message = connection.default_channel.basic_get("celery", no_ack=True)
    assert message.headers["stamps"] == {"tenant": "stamped"}
    assert "tq" not in message.headers
