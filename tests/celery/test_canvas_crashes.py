"""A workflow whose worker dies between two of its steps: bodies and successors run once.

The worker is killed (SIGKILL) at a point that a signal marks: after a task's part was counted,
after its successor was published, between Celery's claim on a chord and its body, after a
replacement was sent. Under prefork the child dies and its task is run again at once; under threads
the whole worker dies, and another takes its tasks over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from celery import chain, chord, group

from tests.celery.canvas_lab import CanvasLab
from tests.servers import ValkeyServer
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    #: Celery's Redis backend uses a command that redis-py calls deprecated.
    pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning"),
]


class Crash(NamedTuple):
    """Where the worker dies, what is sent, its result, and the calls that must happen once."""

    point: str
    send: Callable[[Any], Any]
    result: Any
    once: tuple[str, ...]


CRASHES = {
    "after a part was counted": Crash(
        "task_success:echo",
        lambda t: chord([t.echo.s(1), t.add.s(1, 1)])(chain(t.total.s(), t.negate.s())),
        -3,
        ("total([1, 2],)", "negate(3,)"),
    ),
    "after the last part was counted": Crash(
        "task_success:echo", lambda t: chord([t.echo.s(2)])(t.flat.s()), 2, ("flat([2],)",)
    ),
    "after the body was sent": Crash(
        "after_task_publish:flat", lambda t: chord([t.echo.s(3)])(t.flat.s()), 3, ("flat([3],)",)
    ),
    "before the body was sent": Crash(
        "before_task_publish:flat", lambda t: chord([t.echo.s(4)])(t.flat.s()), 4, ("flat([4],)",)
    ),
    "after a successor was sent": Crash(
        "after_task_publish:negate", lambda t: chain(t.echo.s(5), t.negate.s()).delay(), -5,
        ("negate(5,)",),
    ),
    "before a successor was sent": Crash(
        "before_task_publish:negate", lambda t: chain(t.echo.s(6), t.negate.s()).delay(), -6,
        ("negate(6,)",),
    ),
    "after a chain's group was sent": Crash(
        "task_success:echo",
        lambda t: chain(t.echo.s(7), group(t.add.s(1), t.negate.s()), t.flat.s()).delay(),
        1,
        ("add(7, 1)", "negate(7,)", "flat([8, -7],)"),
    ),
    "after a replacement by a chord": Crash(
        "task_postrun:replaced", lambda t: t.replaced.delay(30, "scheduled chord of chords"),
        31 + 28 + 31, ("sub(30, 2)", "flat([59, 31],)"),
    ),
    "inside a replacement by a chord": Crash(
        "after_task_publish:add", lambda t: t.replaced.delay(40, "scheduled chord"), 41 + 38,
        ("add(40, 1)", "sub(40, 2)", "total([41, 38],)"),
    ),
    "after a replacement by a group": Crash(
        "task_postrun:replaced",
        lambda t: chain(t.replaced.si(50, "scheduled group"), t.flat.s()).delay(),
        51 + 48, ("add(50, 1)", "sub(50, 2)", "flat([51, 48],)"),
    ),
    "after a replacement by a chain": Crash(
        "task_postrun:replaced", lambda t: t.replaced.delay(60, "scheduled chain"), 2 * (61 - 2),
        ("add(60, 1)", "sub(61, 2)", "double(59,)"),
    ),
}  # fmt: skip


#: Celery derives from these how long a chord's claim lasts: 5 s, the least there is.
SHORT_CLAIM = {"broker_connection_timeout": 1.0, "task_publish_retry": False}


#: With a whole worker each death costs a lease, so that arm takes one of each kind.
WHOLE_WORKER = (
    "before the body was sent", "after a replacement by a chord", "inside a replacement by a chord",
)  # fmt: skip
ARMS = [("prefork", name) for name in CRASHES] + [("threads", name) for name in WHOLE_WORKER]


@pytest.fixture(scope="module")
def lab(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[CanvasLab]:
    folder: Path = tmp_path_factory.mktemp("crashes")
    with ValkeyServer() as server:
        lab = CanvasLab(
            server, folder, "wfq", pool=request.param, concurrency=1, lease=1.0, delivery_budget=5,
            conf=SHORT_CLAIM,
        )  # fmt: skip
        yield lab
        lab.close()


@pytest.mark.parametrize(("lab", "name"), ARMS, indirect=["lab"])
def test_a_crash_repeats_no_other_task(lab: CanvasLab, name: str) -> None:
    """The result is right, and what follows the killed task ran once.

    Seen to fail at ``before the body was sent`` without the look at the chord's claim: Celery's
    claim outlives its holder, and the second run leaves the body to it.
    """
    crash = CRASHES[name]
    lab._calls.hset("armed", crash.point, 1)
    with lab.current():
        result = crash.send(lab.app.named)

    def ended() -> bool:
        if lab.processes[-1].poll() is not None:
            lab.worker()
        return bool(result.ready())

    wait_until(ended, "the workflow ends", 60, 0.05)
    assert result.get() == crash.result
    assert not lab._calls.hlen("armed"), "it died"
    lab.wait_quiet({})
    calls = lab.calls()
    assert {call: calls.get(call) for call in crash.once} == dict.fromkeys(crash.once, 1)
