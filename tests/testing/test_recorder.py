"""``tq_celery.testing.record``: what an application submits, without a server."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery import Celery, chain, chord, group
from kombu.exceptions import EncodeError, OperationalError

from tq_celery import TQ, OptionError, PayloadTooLargeError, QueueFullError, TQError
from tq_celery.errors import DuplicateTaskError
from tq_celery.testing import NotRunError, record

#: Nobody listens here: whatever connects fails at once.
NOWHERE = "redis://127.0.0.1:1"


def build(**settings: Any) -> Any:
    """Return a project whose servers are all away."""
    app = Celery("proj", broker=f"{NOWHERE}/0", backend=f"{NOWHERE}/1", set_as_current=False)
    app.conf.broker_transport_options = {"max_retries": 0}
    tq = TQ(app, f"{NOWHERE}/2", publish_timeout=0.2, **settings)

    @tq.task(shared=False, name="proj.report", tenant="account", deadline=30)
    def report(account: str, kind: str = "pdf") -> str:
        return f"{kind} for {account}"

    @app.task(shared=False, name="proj.plain")
    def plain(x: int) -> int:
        return x

    app.finalize()
    return app


@pytest.fixture
def app() -> Any:
    return build()


@pytest.fixture
def report(app: Any) -> Any:
    return app.tasks["proj.report"]


def test_a_call_is_recorded_as_the_worker_would_get_it(app, report):
    with record(app) as recorder:
        sent = report.apply_async(("acme",), {"kind": "csv"}, queue="slow", priority=9, cost=2.5)
    (call,) = recorder.assert_submitted(
        "proj.report", args=("acme",), kwargs={"kind": "csv"}, tenant="acme", deadline=30,
        queue="slow", priority=9, cost=2.5, times=1,
    )  # fmt: skip
    assert call.id == sent.id
    assert call.scheduled
    assert not call.eager
    assert str(call) == (
        "proj.report('acme', kind='csv')  tenant='acme' priority=9 cost=2.5 deadline=30.0 "
        "queue='slow'"
    )


def test_without_the_recorder_the_same_call_needs_its_server(app, report):
    """Seen to fail when ``record`` left its producers behind."""
    with record(app) as recorder:
        report.apply_async(("acme",), ignore_result=True)
    with pytest.raises(OperationalError):
        report.apply_async(("acme",), ignore_result=True)
    recorder.assert_submitted(times=1)
    assert app.backend.__class__.__name__ == "RedisBackend"


@pytest.mark.parametrize(
    "options, expected, other",
    [
        ({"countdown": 5}, {"countdown": 5}, {"countdown": 6}),
        ({"deadline": 7}, {"deadline": 7}, {"deadline": 8}),
        ({"tenant": "x"}, {"tenant": "x"}, {"tenant": b"y"}),
        ({"tenant": b"\xff"}, {"tenant": b"\xff"}, {"tenant": "x"}),
        ({"retries": 2}, {"retries": 2}, {"retries": 0}),
    ],
)
def test_every_option_is_compared(app, report, options, expected, other):
    with record(app) as recorder:
        report.apply_async(("acme",), **options)
    recorder.assert_submitted(report, **expected)
    recorder.assert_not_submitted(report, **other)


def test_a_moment_matches_the_same_time_in_seconds(app, report):
    soon = datetime.now(UTC) + timedelta(seconds=60)
    with record(app) as recorder:
        report.apply_async(("acme",), eta=soon, deadline=soon)
    recorder.assert_submitted(report, eta=60, deadline=60)
    recorder.assert_not_submitted(report, eta=62)
    (call,) = recorder.calls
    assert call.eta is not None
    assert abs(call.eta - soon) < timedelta(milliseconds=2)


def test_the_message_lists_what_was_submitted_and_how_it_differs(app, report):
    with record(app) as recorder:
        report.delay("acme")
        app.tasks["proj.plain"].delay(1)
        with pytest.raises(AssertionError) as failure:
            recorder.assert_submitted(report, tenant="beta", deadline=30, times=2)
    assert str(failure.value) == (
        "expected 2 submissions of proj.report with tenant='beta', deadline=30; found 0\n"
        "submitted were 2:\n"
        "  proj.report('acme')  tenant='acme' priority=0 cost=1.0 deadline=30.0 queue='celery'"
        "  <- tenant is 'acme'\n"
        "  proj.plain(1)  queue='celery' not scheduled"
    )
    recorder.clear()
    with pytest.raises(AssertionError, match="of any task; found 0\nnothing was submitted"):
        recorder.assert_submitted()


def test_a_field_that_does_not_exist_is_an_error_and_never_a_match(app):
    with record(app) as recorder, pytest.raises(TypeError, match="'tenent' is not a field"):
        recorder.assert_not_submitted("proj.report", tenent="acme")


def test_canvas_bulk_and_names(app, report):
    plain = app.tasks["proj.plain"]
    with record(app) as recorder:
        chain(report.si("a"), plain.si(1), report.si("b")).delay()
        recorder.assert_submitted(report, times=1, then=("proj.plain", "proj.report"))
        recorder.clear()
        group(report.si("a"), plain.si(1)).delay()
        recorder.assert_submitted(report, times=1)
        recorder.assert_submitted(plain, times=1, scheduled=False)
        recorder.clear()
        result = chord([report.si("a"), report.si("b")], plain.si(1)).delay()
        assert [call.name for call in recorder.calls] == ["proj.report"] * 2
        recorder.assert_submitted(report, times=2, then=("proj.plain",))
        recorder.clear()
        app.tq.submit_many([report.s("a"), (report, ("b",), {}, {"tenant": "c"})])
        assert [call.tenant for call in recorder.calls] == ["a", "c"]
        recorder.clear()
        app.send_task("proj.report", ("named",))
        recorder.assert_submitted(report.s("any"), tenant="named", times=1)
        with pytest.raises(NotRunError, match="was recorded, not run"):
            result.get(timeout=1)


def test_calls_from_other_threads_are_recorded(app, report):
    """Seen to fail with a recorder of the calling thread alone."""
    with record(app) as recorder:
        threads = [
            threading.Thread(target=lambda: [report.delay("acme") for _ in range(20)])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    recorder.assert_submitted(report, tenant="acme", times=80)


def test_what_a_server_would_refuse_is_refused():
    app = build(max_payload=2_000, max_pending_tenant=2)
    report = app.tasks["proj.report"]
    with record(app) as recorder:
        with pytest.raises(OptionError):
            report.apply_async(("acme",), deadline=-1)
        with pytest.raises(EncodeError):
            report.delay("acme", kind=object())
        with pytest.raises(PayloadTooLargeError):
            report.delay("acme", kind="a" * 3_000)
        report.apply_async(("acme",), task_id="one")
        report.apply_async(("acme",), task_id="one")
        with pytest.raises(DuplicateTaskError):
            report.apply_async(("other",), task_id="one")
        report.delay("acme")
        with pytest.raises(QueueFullError):
            report.delay("acme")
    recorder.assert_submitted(times=2)


def test_under_always_eager_the_task_runs_and_is_recorded(app, report):
    """celery/celery #4008: the same checks as for a real call, and no server."""
    app.conf.task_always_eager = True
    with record(app) as recorder:
        assert report.delay("acme").get() == "pdf for acme"
        chain(report.si("a"), report.si("b")).delay()
        with pytest.raises(OptionError):
            report.apply_async(("acme",), priority=256)
    recorder.assert_submitted(report, tenant="acme", deadline=30, eager=True, times=1)
    recorder.assert_submitted(report, times=3)


def test_running_a_task_by_hand_submits_nothing(app, report):
    with record(app) as recorder:
        assert report("acme") == report.apply(("acme",)).get() == "pdf for acme"
    recorder.assert_not_submitted()


def test_recorders_may_be_nested(app, report):
    with record(app) as outer:
        report.delay("1")
        with record(app) as inner:
            report.delay("2")
        report.delay("3")
    inner.assert_submitted(report, tenant="2", times=1)
    assert [call.tenant for call in outer.calls] == ["1", "3"]


def test_an_application_without_a_tq_is_told_so():
    with (
        pytest.raises(TQError, match="attach one with TQ"),
        record(Celery("bare", set_as_current=False)),
    ):
        pass


def test_a_call_that_goes_to_the_broker_is_not_scheduled():
    app = build(fraction=0.0)
    report = app.tasks["proj.report"]
    with record(app) as recorder:
        report.apply_async(("acme",), queue="slow", countdown=3)
    recorder.assert_submitted(report, scheduled=False, queue="slow", countdown=3, times=1)
