"""A member that never succeeds ends its chord where callers look: at the body's id, soon, once.

Such a member is buried after its delivery budget, rejected, expired, or revoked before it ran.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import chain, chord
from celery.exceptions import ChordError, TaskRevokedError

from tests.celery.canvas_lab import CanvasLab
from tests.servers import ValkeyServer
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    #: Celery's Redis backend uses a command that redis-py calls deprecated.
    pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning"),
]

#: How a member ends, the state it then has, and whether Celery calls its errbacks for that.
ENDINGS: dict[str, tuple[Callable[[Any], Any], str, bool]] = {
    "buried": (lambda t: t.dies.si(), "FAILURE", True),
    "rejected": (lambda t: t.refuses.si(), "FAILURE", True),
    "expired": (lambda t: t.add.si(1, 1).set(expires=0.01, countdown=0.1), "REVOKED", False),
    "revoked": (lambda t: t.add.si(2, 2).set(countdown=600), "REVOKED", False),
}
Put = Callable[[Any, Any], Any]
#: Where in the header the member stands, and what the body is.
SHAPES: dict[str, tuple[Put, Callable[[Any], Any]]] = {
    "member": (lambda t, bad: bad, lambda t: t.flat.s()),
    "ordinary body": (lambda t, bad: bad, lambda t: t.flat_plain.s()),
    "chain as body": (lambda t, bad: bad, lambda t: chain(t.flat.s(), t.double.s())),
    "first of a chain": (lambda t, bad: chain(bad, t.double.si(2)), lambda t: t.flat.s()),
    "last of a chain": (lambda t, bad: chain(t.one.si(), bad), lambda t: t.flat.s()),
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: Any) -> Iterator[CanvasLab]:
    folder: Path = tmp_path_factory.mktemp("endings")
    with ValkeyServer() as server:
        lab = CanvasLab(
            server, folder, "wfq", pool="prefork", concurrency=3, lease=1.0, delivery_budget=2
        )
        yield lab
        lab.close()


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_ending_is_seen_at_the_body(lab: CanvasLab, ending: str) -> None:
    """A member by itself or in a chain, before a scheduled or an ordinary body.

    Seen to fail for ``first of a chain`` when the chain of a revoked task is left alone, which is
    what Celery does: the chord then waits for ever.
    """
    t, (make, state, has_errbacks) = lab.app.named, ENDINGS[ending]
    sent, marks = {}, []
    with lab.current():
        for shape, (put, body) in SHAPES.items():
            mark = f"{ending}, {shape}"
            marks.append(mark)
            bad = make(t).set(task_id=f"bad {mark}").on_error(t.on_failed.s(mark=f"m {mark}"))
            last = body(t).on_error(t.on_failed.s(mark=f"b {mark}"))
            sent[mark] = chord([put(t, bad), t.one.si()])(last)
        if ending == "revoked":
            lab.app.control.revoke([f"bad {mark}" for mark in marks])
    for mark, result in sent.items():
        with pytest.raises(Exception, match=r"budget|as asked|expired|revoked|Dependency"):
            result.get(timeout=30)
        with pytest.raises(ChordError, match=r"Dependency .* raised"):
            lab.app.AsyncResult(result.id).get(timeout=30)
        assert result.state == "FAILURE", mark
        member = lab.app.AsyncResult(f"bad {mark}")
        wait_until(member.ready, "the member's own state, which may be written last")
        assert member.state == state, mark
    expected = {f"on_failed('b {mark}',)" for mark in marks}
    if has_errbacks:
        expected |= {f"on_failed('m {mark}',)" for mark in marks}
    wait_until(lambda: expected <= lab.calls().keys(), "the errbacks ran")
    lab.wait_quiet({})
    errbacks = {n: c for n, c in lab.calls().items() if n.startswith("on_failed") and ending in n}
    assert errbacks == dict.fromkeys(expected, 1)
    assert not [name for name in lab.calls() if name.startswith(("flat", "double"))]


@pytest.mark.parametrize("ending", ["expired", "revoked"])
def test_the_rest_of_a_revoked_chain_is_revoked(lab: CanvasLab, ending: str) -> None:
    """Whoever waits for the end of a chain hears that a task in it will not run.

    In Celery the tasks after it stay pending.
    """
    t, task_id = lab.app.named, f"first of a {ending} chain"
    with lab.current():
        first = ENDINGS[ending][0](t).set(task_id=task_id)
        result = chain(first, t.double.si(7), t.negate.si(7)).delay()
        if ending == "revoked":
            lab.app.control.revoke(task_id)
    with pytest.raises(TaskRevokedError):
        result.get(timeout=30)
    lab.wait_quiet({})
    states = [result.state, result.parent.state, result.parent.parent.state]
    assert states == ["REVOKED"] * 3
    assert not [name for name in lab.calls() if name.startswith(("double(7", "negate(7"))]
