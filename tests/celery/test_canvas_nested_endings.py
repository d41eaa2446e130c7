"""A chord that fails in the header of another ends that one too; in Celery it waits for ever."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from celery import chain, chord, group
from celery.exceptions import ChordError

from tests.celery.canvas_lab import CanvasLab
from tests.servers import ValkeyServer
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    #: Celery's Redis backend uses a command that redis-py calls deprecated.
    pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning"),
]

#: What stands beside an ordinary member in the outer header.
INNER: dict[str, Callable[[Any, Any], Any]] = {
    "a task as body": lambda t, bad: chord([bad, t.one.si()], t.flat.s()),
    "an ordinary body": lambda t, bad: chord([bad, t.one.si()], t.flat_plain.s()),
    "a chain as body": lambda t, bad: chord([bad, t.one.si()], chain(t.flat.s(), t.double.s())),
    "a group as body": lambda t, bad: chord([bad, t.one.si()], group(t.flat.s(), t.largest.s())),
    "a chord as body": lambda t, bad: chord(
        [bad, t.one.si()], chord([t.flat.s(), t.largest.s()], t.total.s())
    ),
    "and a task after it": lambda t, bad: chain(chord([bad, t.one.si()], t.flat.s()), t.double.s()),
    "and one more chord in it": lambda t, bad: chord(
        [chord([bad, t.one.si()], t.flat.s()), t.two.si()], t.flat.s()
    ),
}
#: How a member fails.
ENDINGS: dict[str, Callable[[Any], Any]] = {
    "raises": lambda t: t.fail.si(mark="inner"),
    "buried": lambda t: t.dies.si(),
    "expired": lambda t: t.add.si(1, 1).set(expires=0.01, countdown=0.1),
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: Any) -> Iterator[CanvasLab]:
    with ValkeyServer() as server:
        folder = tmp_path_factory.mktemp("nested")
        lab = CanvasLab(
            server, folder, "wfq", pool="prefork", concurrency=3, lease=1.0, delivery_budget=2
        )
        yield lab
        lab.close()


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_outer_chord_ends(lab: CanvasLab, ending: str) -> None:
    """Seen to fail for every inner chord but the one with a task after it."""
    t, sent = lab.app.named, {}
    with lab.current():
        for name, inner in INNER.items():
            mark = f"{ending}, {name}"
            last = t.flat.s().on_error(t.on_failed.s(mark=mark))
            sent[mark] = chord([inner(t, ENDINGS[ending](t)), t.one.si()])(last)
    for mark, result in sent.items():
        body = lab.app.AsyncResult(result.id)
        wait_until(body.ready, f"the end of {mark}", 15)
        with pytest.raises(ChordError):
            body.get(timeout=1)
    wait_until(lambda: all(f"on_failed('{m}',)" in lab.calls() for m in sent), "errbacks", 10)
    lab.wait_quiet({})
    errbacks = {n: c for n, c in lab.calls().items() if n.startswith("on_failed") and ending in n}
    assert errbacks == {f"on_failed('{mark}',)": 1 for mark in sent}
    assert not [name for name in lab.calls() if name.startswith(("flat", "double", "total"))]
