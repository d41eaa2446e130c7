"""The task of workloads, its ids and its application."""

from __future__ import annotations

import os
import signal
import time

import pytest
from celery import Celery

from tq_celery import TQ
from tq_celery.errors import ProduceError, SettingsError
from tq_celery.produce import NAME, register
from tq_celery.produce.build import build
from tq_celery.produce.halt import halted_by_signals
from tq_celery.produce.offer import Offer
from tq_celery.produce.target import target_of
from tq_celery.produce.task import spend
from tq_celery.settings import Settings
from tq_celery.workloads.registry import make_workload

WORKS = make_workload("uniform", seed=1, count=10)


def application(url: str = "redis://h:1/0", name: str = "shop") -> Celery:
    app = Celery(name, broker="memory://", set_as_current=False)
    TQ(app, url, namespace=name)
    return app


def test_ids_follow_from_prefix_and_seed() -> None:
    offer = Offer("uniform", WORKS, 7, "mine")
    assert (offer.run, offer.task_id(3)) == ("mine-7", "mine-7-3")
    for bad in ("", "a b", "a/b", "x" * 65, "ü", "a\n"):
        with pytest.raises(SettingsError, match="prefix"):
            Offer("uniform", WORKS, 7, bad)


def test_two_offers_differ_by_anything_that_their_tasks_do() -> None:
    digests = {
        Offer("uniform", WORKS, 1, "p").digest,
        Offer("uniform", WORKS, 1, "p", "cpu").digest,
        Offer("uniform", WORKS, 1, "p", queue="q").digest,
        Offer("uniform", WORKS[:9], 1, "p").digest,
        Offer("uniform", [w._replace(at=0.0) for w in WORKS], 1, "p").digest,
    }
    assert len(digests) == 5
    assert Offer("uniform", WORKS, 2, "q").digest in digests


def test_a_call_carries_what_the_scheduler_reads() -> None:
    offer = Offer("uniform", WORKS, 1, "p", "cpu")
    work = WORKS[2]
    task, args, kwargs, options = offer.call("task", work, {"queue": "q"})
    assert (task, args, kwargs) == ("task", (2, work.seconds, "cpu"), {})
    assert options == {
        "task_id": "p-1-2", "tenant": work.tenant, "cost": work.cost,
        "priority": work.priority, "deadline": work.deadline, "queue": "q",
    }  # fmt: skip
    assert "deadline" not in offer.call("task", work._replace(deadline=None), {})[3]


def test_time_is_slept_or_computed() -> None:
    wall, cpu = time.monotonic(), time.thread_time()
    spend(0.05, "sleep")
    assert time.monotonic() - wall >= 0.05
    assert time.thread_time() - cpu < 0.03
    cpu = time.thread_time()
    spend(0.05, "cpu")
    assert time.thread_time() - cpu >= 0.05
    spend(0.0, "sleep")
    spend(0.0, "cpu")


def test_one_line_registers_the_task_on_any_application() -> None:
    app = application()
    task = register(app.tq)
    assert task.name == NAME == "tq.work"
    assert app.tasks[NAME].acks_late
    target = target_of(app, Settings(url="redis://h:1/0", namespace="shop"), None)
    assert (target.queue, target.options) == ("celery", {})
    target = target_of(app, Settings(url="redis://h:1/0", namespace="shop"), "other")
    assert (target.queue, target.options) == ("other", {"queue": "other"})


def test_the_application_made_here_is_where_the_settings_are() -> None:
    settings = Settings(url="redis://h:1/0", namespace="n", fraction=0.5, on_unavailable="broker")
    target = target_of(None, settings, None)
    tq = target.app.tq
    own = tq.settings
    assert (own.url, own.namespace, target.queue) == ("redis://h:1/0", "n", "produce")
    rules = tq.routes.rules_of(NAME, target.app.tasks[NAME])
    assert tq.publisher.fraction(rules) == 1.0, "nothing goes to the broker"
    assert tq.publisher.on_unavailable(rules) == "raise"
    assert target_of(None, settings, "mine").queue == "mine"
    assert build().conf.broker_url.startswith("memory://")


def test_an_application_that_cannot_take_a_workload() -> None:
    settings = Settings(url="redis://h:1/0", namespace="shop")
    with pytest.raises(ProduceError, match="application 'bare' has no TQ"):
        target_of(Celery("bare", set_as_current=False), settings, None)
    with pytest.raises(ProduceError, match=r"no task 'tq.work'; add to it: .*register\(tq\)"):
        target_of(application(), settings, None)
    app = application("redis://:secret@other:1/0")
    register(app.tq)
    with pytest.raises(ProduceError, match="sends to namespace 'shop' on redis://") as caught:
        target_of(app, settings, None)
    assert "secret" not in str(caught.value)


def test_the_first_signal_halts_and_the_second_is_the_usual_one() -> None:
    with halted_by_signals() as halt:
        assert (halt.word, halt.exit_code) == ("", 0)
        os.kill(os.getpid(), signal.SIGINT)
        assert halt.wait(1.0)
        assert (halt.word, halt.exit_code) == ("SIGINT", 130)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1.0)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
