"""A task that is run again replaces itself by the same messages, whatever replaces it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from celery import chain, chord, group

from tests.celery.recording import Lab
from tests.celery.test_publish_inheritance import Flow, flow
from tq_celery.app import Routes
from tq_celery.task import give_ids_in_replace
from tq_celery.testing import start

__all__ = ["flow"]

#: Celery's Redis backend uses a command that redis-py calls deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning")


def _replacing(lab: Lab, make: Any) -> Any:
    @lab.tq.task(name="old", bind=True)
    def old(self: Any) -> Any:
        raise self.replace(make())

    return old


KINDS: dict[str, Any] = {
    "group": lambda f: group(f.a.si(), f.b.si()),
    "generator": lambda f: group(each.si() for each in (f.a, f.b)),
    "the same member twice": lambda f: group([f.a.si()] * 3),
    "chord": lambda f: chord([f.a.si(), f.b.si()], f.c.s()),
    "chord over a chain": lambda f: chord([f.a.si() | f.b.si(), f.c.si()], f.d.s() | f.e.s()),
    "chord over a chord": lambda f: chord([chord([f.a.si()], f.b.s()), f.c.si()], f.d.s()),
    "chain to a group": lambda f: chain(f.a.si(), group(f.b.si(), f.c.si())),
    "chain through a group": lambda f: chain(group(f.a.si(), f.b.si()), f.c.s(), f.d.s()),
    "chain": lambda f: chain(f.a.si(), f.b.si()),
    "group of groups": lambda f: group(group(f.a.si(), f.b.si()), f.map),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_run_sends_the_same_keys(flow: Flow, kind: str) -> None:
    """Everything that comes of a replacement, to its last task, has the keys of the first time.

    Seen to fail without ``give_ids``: header and members get new ids, and all would run twice.
    """
    flow.map = flow.a.map([1, 2])  # type: ignore[attr-defined]
    _replacing(flow, lambda: KINDS[kind](flow)).delay()
    parent = flow.taken[0]
    flow.run_all()
    first = Counter(each.key for each in flow.taken[1:])
    del flow.taken[1:]
    flow.run(parent)
    for each in flow.taken[1:]:
        flow.run(each)
    again = Counter(each.key for each in flow.taken[1:])
    assert first.total() == len(first) > 1
    assert not again - first
    assert parent.key.id in {key.id for key in first}, "the last part has the task's own id"


def test_other_content_and_another_key_have_other_ids(flow: Flow) -> None:
    """Two runs that replace themselves by different things must not be mixed."""
    content = iter([1, 1, 2])
    old = _replacing(flow, lambda: group(flow.a.si(next(content)), flow.b.si()))
    old.delay()
    parent, seen = flow.taken[0], []
    requeued = parent.key._replace(generation=1)
    for key in (parent.key, requeued, parent.key):
        del flow.taken[1:]
        flow.run(parent._replace(key=key))
        seen.append({each.key.id for each in flow.taken[1:]})
    assert not seen[0] & seen[1]
    assert not seen[0] & seen[2]


def test_what_cannot_be_compared_gets_celery_s_ids(flow: Flow) -> None:
    """Arguments without a JSON form are no error: the ids are new each time, as in Celery."""
    flow.app.conf.update(task_serializer="pickle", accept_content=["pickle", "json"])
    sent = group(flow.a.si(object()), flow.b.si())
    old = _replacing(flow, lambda: sent)
    old.apply_async(serializer="json")
    flow.run(flow.taken[0])
    assert len(flow.taken) == 3


def test_a_task_that_only_a_route_schedules(flow: Flow) -> None:
    """Seen to fail with Celery's own ``replace``, whose members have new ids each time."""

    @flow.app.task(name="routed.old", bind=True)
    def old(self: Any) -> Any:
        raise self.replace(group(flow.a.si(), flow.b.si()))

    give_ids_in_replace(old)
    vars(flow.tq)["routes"] = Routes({"routed.*": {}})
    old.delay()
    seen = []
    for _ in range(2):
        del flow.taken[1:]
        flow.run(flow.taken[0])
        seen.append([each.key.id for each in flow.taken[1:]])
    assert seen[0] == seen[1] != []


def test_workers_see_to_that(flow: Flow, any_server: Any) -> None:
    """Every task of the application that does not know us by its class."""
    with start(flow.app, any_server.url):
        assert "replace" in vars(flow.app.tasks["plain"])
        assert "replace" not in vars(flow.app.tasks["a"])
