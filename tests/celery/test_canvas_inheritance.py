"""Every task of a workflow has the tenant, priority and deadline that its start was given.

One table: each shape, started from options at the call, from a declaration, from a route and under
an ambient tenant. Run with ``-s`` it prints what each task had (celery/celery #7517, #5597).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import chain, chord, group

from tests.celery.test_publish_inheritance import Flow
from tq_celery import const
from tq_celery.envelope import decode

#: Celery's Redis backend uses a command that redis-py calls deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning")

GIVEN = {"tenant": "acme", "priority": 7, "deadline": 60}
#: Which options a start under an ambient tenant has beside it: none.
AMBIENT = ("acme", 0, False)


class Roots(Flow):
    """A flow with the tasks that workflows start with, declared as ``source`` says."""

    start: Any

    def __init__(self, source: str, **options: Any) -> None:
        settings = options.pop("settings")
        if source == "route":
            settings["routes"] = {"root.*": {**GIVEN, "tenant": {"const": "acme"}}}
        super().__init__(settings=settings, **options)
        self.source = source
        lab = self

        def root(name: str, **task_options: Any) -> Callable[[Any], Any]:
            full = f"root.{name}"
            if source == "route":
                decorate = self.app.task(name=full, **task_options)
            elif source == "declaration":
                decorate = self.tq.task(
                    name=full, tenant=const("acme"), priority=7, deadline=60, **task_options
                )
            else:
                decorate = self.tq.task(name=full, **task_options)

            def declare(function: Any) -> Any:
                task = decorate(function)
                setattr(self, name, task)
                return task

            return declare

        @self.tq.task(name="told")
        def told(task_id: str) -> None:
            """An errback of the old kind, which is sent."""

        self.told = told

        @root("start")
        def start(*_: Any) -> str:
            return "start"

        @root("other")
        def other(*_: Any) -> str:
            return "other"

        @root("fails")
        def fails(*_: Any) -> None:
            raise ValueError("as asked")

        @root("again", bind=True, max_retries=2)
        def again(self: Any, *_: Any) -> None:
            if self.request.retries < 2:
                raise self.retry(countdown=0)

        @root("auto", bind=True, autoretry_for=(KeyError,), max_retries=2, retry_backoff=True)
        def auto(self: Any, *_: Any) -> None:
            if self.request.retries < 1:
                raise KeyError("not yet")

        @root("replaced", bind=True)
        def replaced(self: Any, kind: str) -> None:
            many = {
                "task": lambda: lab.a.si(),
                "chain": lambda: lab.a.si() | lab.b.si(),
                "group": lambda: group(lab.a.si(), lab.b.si()),
                "chord": lambda: chord([lab.a.si(), lab.b.si()], lab.c.si()),
            }
            raise self.replace(many[kind]())

        @root("sends")
        def sends(*_: Any) -> None:
            chord([lab.a.si(), lab.plain.si()], lab.b.si()).delay()
            lab.c.delay()


#: What is sent, and which tasks must then have the options of the start.
SHAPES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "the report's": (
        lambda f: chain(f.start.si(), chord([f.b.si(), f.c.si()], f.d.si()), f.e.si()),
        "start b c d e",
    ),
    "task": (lambda f: f.start.si(), "start"),
    "chain": (lambda f: chain(f.start.s(), f.a.s(), f.b.s()), "start a b"),
    "chain through plain": (lambda f: chain(f.start.s(), f.plain.s(), f.b.s()), "start b"),
    "chain to group": (lambda f: f.start.s() | group(f.a.s(), f.b.s()), "start a b"),
    "group": (lambda f: group(f.start.s(), f.other.s()), "start other"),
    "group of chains": (
        lambda f: group(f.start.s() | f.a.s(), f.other.s() | f.b.s()), "start other a b"
    ),
    "group then task": (lambda f: group(f.start.s(), f.other.s()) | f.a.s(), "start other a"),
    "chord": (lambda f: chord([f.start.s(), f.other.s()], f.a.s()), "start other a"),
    "chord, an ordinary task ends it": (
        lambda f: chord([f.start.s(), f.plain.s()], f.a.s()), "start a"
    ),
    "chord to chain": (
        lambda f: chord([f.start.s(), f.other.s()], f.a.s() | f.b.s()), "start other a b"
    ),
    "chord to group": (lambda f: chord([f.start.s()], group(f.a.s(), f.b.s())), "start a b"),
    "chord to chord": (
        lambda f: chord([f.start.s()], chord([f.a.s(), f.b.s()], f.c.s())), "start a b c"
    ),
    "chord of chords": (
        lambda f: chord([chord([f.start.s()], f.a.s()), f.other.s()], f.b.s()), "start other a b"
    ),
    "chord of chains": (
        lambda f: chord([f.start.s() | f.a.s(), f.other.s()], f.b.s()), "start other a b"
    ),
    "link": (lambda f: _linked(f.start.s(), f.a.s()), "start a"),
    "links": (lambda f: _linked(f.start.s(), f.a.s(), f.b.s() | f.c.s()), "start a b c"),
    "link to a group": (lambda f: _linked(f.start.s(), group(f.a.s(), f.b.s())), "start a b"),
    "link to a chord": (
        lambda f: _linked(f.start.s(), chord([f.a.s(), f.b.s()], f.c.s())), "start a b c"
    ),
    "errback": (lambda f: f.fails.s().on_error(f.told.s()), "fails told"),
    "errback of a body": (
        lambda f: chord([f.fails.s()], f.b.s().on_error(f.told.s())), "fails told"
    ),
    "errback of a chain": (
        lambda f: chain(f.fails.s(), f.b.s()).on_error(f.told.s()), "fails told"
    ),
    "errback that is a chain": (
        lambda f: f.fails.s().on_error(f.a.si() | f.b.si()), "fails a b"
    ),
    "retry": (lambda f: f.again.s(), "again"),
    "retry in a chain": (lambda f: f.again.s() | f.a.s(), "again a"),
    "autoretry": (lambda f: f.auto.s() | f.a.s(), "auto a"),
    "replaced by a task": (lambda f: f.replaced.s("task") | f.d.s(), "replaced a d"),
    "replaced by a chain": (lambda f: f.replaced.s("chain") | f.d.s(), "replaced a b d"),
    "replaced by a group": (
        lambda f: f.replaced.s("group") | f.d.s(), "replaced a b celery.accumulate d"
    ),
    "replaced by a chord": (lambda f: f.replaced.s("chord") | f.d.s(), "replaced a b c d"),
    "sends from inside": (lambda f: f.sends.s(), "sends a b c"),
    "map": (lambda f: f.start.map([1, 2]) | f.a.s(), "celery.map a"),
    "starmap": (lambda f: f.start.starmap([(1,), (2,)]) | f.a.s(), "celery.starmap a"),
    "chunks": (lambda f: f.start.chunks([(1,), (2,), (3,)], 2).group(), "celery.starmap"),
}  # fmt: skip


def _linked(work: Any, *callbacks: Any) -> Any:
    for callback in callbacks:
        work.link(callback)
    return work


SLOW = [pytest.param(each, marks=pytest.mark.slow) for each in ("route", "ambient")]


@pytest.fixture(params=["call", "declaration", *SLOW])
def roots(request: pytest.FixtureRequest, server: Any, namespace: str) -> Iterator[Roots]:
    lab = Roots(request.param, backend=server.url, settings={"namespace": namespace})
    yield lab
    close(lab)


def close(lab: Roots) -> None:
    # Results that go later would unsubscribe, which needs the server.
    lab.app.backend.remove_pending_result = lambda result: result
    lab.app.backend.result_consumer.stop()
    lab.app.backend.client.close()
    lab.app.close()


@pytest.mark.parametrize("shape", SHAPES)
def test_every_task_has_the_options_of_the_start(roots: Roots, shape: str) -> None:
    """Seen to fail for maps in a chain, which Celery sends without the name of their task."""
    check(roots, shape)


@pytest.mark.slow
@pytest.mark.parametrize("source", ["call", "declaration", "route", "ambient"])
@pytest.mark.parametrize("shape", [name for name in SHAPES if "chord" in name])
def test_the_same_where_the_backend_polls(source: str, shape: str, tmp_path: Path) -> None:
    """``celery.chord_unlock`` sends the body, and it is published before the header is.

    Seen to fail when it is not held back: the body knows no tenant that only a task of the header
    has.
    """
    roots = Roots(source, backend=tmp_path.as_uri(), settings={})
    check(roots, shape)
    roots.app.close()


@pytest.mark.parametrize("order", [1, -1])
def test_a_body_belongs_to_the_first_of_its_header(order: int, server: Any, namespace: str) -> None:
    """Which member ends last is chance; whom the body is for is not.

    Seen to fail when each member writes its own options into its copy of the body.
    """
    roots = Roots("call", backend=server.url, settings={"namespace": namespace})
    members = [roots.start.s().set(tenant=name) for name in ("one", "two", "three")]
    chord(members, roots.a.s()).delay()
    for each in roots.taken[::order]:
        roots.run(each)
    assert decode(roots.taken[3].payload).headers["task"] == "a"
    assert [each.tenant for each in roots.taken] == [b"one", b"two", b"three", b"one"]
    close(roots)


def check(roots: Roots, shape: str) -> None:
    """Send the shape, run all that comes of it, and look at what each task had."""
    make, names = SHAPES[shape]
    work = make(roots)
    if roots.source == "ambient":
        with roots.tq.tenant("acme"):
            work.apply_async()
    else:
        work.apply_async(**(GIVEN if roots.source == "call" else {}))
    roots.run_all()
    found: dict[str, set[Any]] = {}
    deadlines = set()
    for each in roots.taken:
        header = decode(each.payload).headers["tq"]
        name = decode(each.payload).headers["task"].removeprefix("root.")
        print(f"{shape}: {name} {header['tenant']} {header['priority']} {header.get('deadline')}")
        assert (each.tenant.decode(), each.priority) == (header["tenant"], header["priority"])
        found.setdefault(name, set()).add(
            (header["tenant"], header["priority"], "deadline" in header)
        )
        deadlines.add(header.get("deadline"))
    expected = AMBIENT if roots.source == "ambient" else ("acme", 7, True)
    assert found == {name: {expected} for name in names.split()}
    if not {"other", "celery.starmap"} & set(names.split()):
        assert len(deadlines) == 1, "one deadline for all that comes of one task"
