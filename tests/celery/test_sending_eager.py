"""Eager mode: no server at all, and what fails in production fails here (celery/celery #4008)."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from celery import chain, chord, group
from celery.exceptions import MaxRetriesExceededError
from celery.result import allow_join_result
from kombu.exceptions import EncodeError

from tests.celery.recording import Lab
from tq_celery import OptionError, SettingsError, const


@pytest.fixture(autouse=True)
def _no_connection(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail whatever opens a connection."""
    opened: list[Any] = []

    def connect(self: Any, address: Any) -> None:
        opened.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket.socket, "connect", connect)
    yield
    assert opened == []


class Eager(Lab):
    def __init__(self, **conf: Any) -> None:
        super().__init__(
            settings={"url": "redis://127.0.0.1:1/0", "routes": {"routed": {"tenant": "who"}}},
            **{
                "task_always_eager": True, "task_eager_propagates": True,
                "backend": "cache+memory://", **conf,
            },
        )  # fmt: skip
        self.seen: list[Any] = []

        @self.tq.task(name="see", bind=True, tenant="who", priority=3)
        def see(task: Any, value: Any = 0, who: str = "nobody") -> Any:
            self.seen.append((task.request.headers or {}).get("tq", {}).get("tenant"))
            return value

        @self.tq.task(name="who", bind=True)
        def whose(task: Any) -> str:
            return str(task.request.headers["tq"]["tenant"])

        @self.tq.task(name="routed", bind=True)
        def routed(task: Any, who: str) -> str:
            return str(task.request.headers["tq"]["tenant"])

        @self.tq.task(name="around", tenant=const("acme"))
        def around() -> str:
            with allow_join_result():
                return str(whose.delay().get())

        @self.tq.task(name="failing")
        def failing() -> None:
            raise ZeroDivisionError

        @self.tq.task(name="total")
        def total(values: list[int]) -> int:
            return sum(values)

        @self.tq.task(name="again", bind=True, max_retries=3)
        def again(task: Any, fails: int) -> int:
            if task.request.retries < fails:
                raise task.retry(countdown=3600)
            retries: int = task.request.retries
            return retries

        self.see, self.total, self.again = see, total, again
        self.whose, self.routed, self.around, self.failing = whose, routed, around, failing


@pytest.mark.parametrize(
    ("option", "value"),
    [("tenant", 1.5), ("priority", 300), ("deadline", -1), ("cost", 0), ("countdown", "soon"),
     ("countdown", float("nan"))],
)  # fmt: skip
@pytest.mark.parametrize("way", ["apply_async", "signature", "group", "chain", "apply"])
def test_what_a_send_refuses_is_refused(option: str, value: Any, way: str) -> None:
    lab = Eager()
    calls = {
        "apply_async": lambda: lab.see.apply_async((1,), **{option: value}),
        "signature": lambda: lab.see.s(1).set(**{option: value}).delay(),
        "group": lambda: group(lab.see.s(1).set(**{option: value})).delay(),
        "chain": lambda: (lab.see.s(1) | lab.see.s().set(**{option: value})).delay(),
        "apply": lambda: lab.see.apply((1,), **{option: value}),
    }
    with pytest.raises((OptionError, ValueError)) as caught:
        calls[way]()
    assert isinstance(caught.value, ValueError if option == "countdown" else OptionError)
    assert len(lab.seen) <= (way == "chain")


def test_arguments_are_serialised_as_for_a_send() -> None:
    lab = Eager()
    with pytest.raises(EncodeError):
        lab.see.delay(object())
    with pytest.raises(TypeError):
        lab.see.delay(1, 2, 3)
    assert lab.see.delay((1, 2)).get() == [1, 2]


def test_bad_settings_are_told() -> None:
    with pytest.raises(SettingsError, match="tq_lease"):
        Eager(tq_lease=-1).see.delay()


def test_the_tenant_is_the_one_of_a_real_send() -> None:
    lab = Eager()
    lab.see.delay(1, who="acme")
    lab.see.apply_async((1,), {"who": "acme"}, tenant="vip", countdown=60)
    assert lab.seen == ["acme", "vip"]
    assert lab.routed.delay("by-route").get() == "by-route"


def test_workflows_run_to_their_end() -> None:
    lab = Eager()
    see, total = lab.see, lab.total
    assert chain(see.s(2), see.s(), see.s()).delay().get() == 2
    assert group(see.s(1), see.s(2)).delay().get() == [1, 2]
    assert chord([see.s(1), see.s(2)])(total.s()).get() == 3
    assert (group(see.s(1), see.s(4)) | total.s()).apply_async(tenant="acme").get() == 5
    assert (chord([see.s(1)], total.s()) | see.s()).delay().get() == 1
    assert see.map([1, 2]).delay().get() == [1, 2]
    assert see.chunks([(1,), (2,)], 1).apply_async().get() == [[1], [2]]
    assert lab.taken == []


def test_what_a_task_sends_inherits_the_tenant() -> None:
    lab = Eager()
    assert lab.around.delay().get() == "acme"
    assert lab.whose.delay().get() == "default"
    with lab.tq.tenant("ambient"):
        assert lab.whose.delay().get() == "ambient"
        assert lab.around.delay().get() == "ambient"


def test_retries_run_on_the_spot() -> None:
    lab = Eager(task_eager_propagates=False)
    assert lab.again.delay(2).get() == 2
    with pytest.raises(MaxRetriesExceededError):
        lab.again.delay(9).get()


@pytest.mark.parametrize("propagates", [True, False])
def test_failures_propagate_as_celery_says(propagates: bool) -> None:
    lab = Eager(task_eager_propagates=propagates)
    if propagates:
        with pytest.raises(ZeroDivisionError):
            lab.failing.delay()
    else:
        assert lab.failing.delay().state == "FAILURE"


def test_results_are_stored_when_celery_is_told_to() -> None:
    lab = Eager(task_store_eager_result=True)
    result = lab.see.delay(7)
    assert lab.app.AsyncResult(result.id).get() == 7
    assert lab.app.AsyncResult(result.id).state == "SUCCESS"
