"""Back pressure at the call: each bound is refused with its scope and the setting that set it."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from celery import Celery

from tq_celery import TQ, PayloadTooLargeError, QueueFullError


def attach(url: str, namespace: str, **settings: Any) -> tuple[TQ, Any]:
    app = Celery(namespace, broker="memory://", set_as_current=False)
    tq = TQ(app, url, **settings)

    @tq.task(name="t.noop", shared=False)
    def noop(*_: Any) -> None: ...

    return tq, noop


@pytest.mark.parametrize(
    ("setting", "scope", "fine"),
    [
        ("max_pending", "namespace", None),
        ("max_pending_queue", "queue", {"queue": "other", "tenant": "a"}),
        ("max_pending_tenant", "tenant", {"tenant": "b"}),
    ],
)
@pytest.mark.parametrize("way", ["argument", "conf"])
def test_each_bound_has_its_scope(
    any_server: Any, namespace: str, setting: str, scope: str, fine: Any, way: str
) -> None:
    """Two may wait, due or not, and the third is refused."""
    if way == "argument":
        tq, noop = attach(any_server.url, namespace, **{setting: 2})
    else:
        tq, noop = attach(any_server.url, namespace)
        tq.app.conf[f"tq_{setting}"] = 2
    noop.apply_async(tenant="a")
    noop.apply_async(tenant="a", countdown=60)
    with pytest.raises(QueueFullError) as caught:
        noop.apply_async(tenant="a")
    assert (caught.value.scope, caught.value.limit) == (scope, 2)
    assert f"tq_{setting}" in str(caught.value)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.scope, copy.limit, str(copy)) == (scope, 2, str(caught.value))
    if fine is not None:
        noop.apply_async(**fine)
    tq.producers.close()


def test_a_payload_just_too_long(any_server: Any, namespace: str) -> None:
    tq, noop = attach(any_server.url, namespace, max_payload=5_000)
    noop.delay("x" * 3_000)
    with pytest.raises(PayloadTooLargeError, match="tq_max_payload") as caught:
        noop.delay("x" * 6_000)
    assert caught.value.limit == 5_000
    assert caught.value.size > 6_000
    tq.producers.close()
