"""Calls that no worker could ever read are refused where they are made, and leave nothing."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from celery import Celery

from tq_celery import TQ, BulkError, OptionError

IMPOSSIBLE: dict[str, dict[str, Any]] = {
    "retries": {"retries": -1},
    "retries in a header": {"headers": {"retries": "x"}},
    "replaced_task_nesting": {"headers": {"replaced_task_nesting": True}},
    "task_id": {"task_id": uuid.UUID(int=7)},
    "task_id of bytes": {"task_id": b"abc"},
    "task_id with half a character": {"task_id": "a\ud800"},
    "queue": {"queue": "q" * 256},
    "queue of a few characters": {"queue": "\u00fc" * 128},
    "queue with half a character": {"queue": "\ud800"},
    "tenant": {"tenant": "\ud800"},
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_what_cannot_be_read_is_refused(any_server: Any, namespace: str, name: str) -> None:
    """Alone, and in a bulk call, which names it and takes the others."""
    app = Celery(namespace, broker="memory://", set_as_current=False)
    tq = TQ(app, any_server.url, namespace=namespace)

    @tq.task(name="t.noop", shared=False)
    def noop(*_: Any) -> None: ...

    # as the server looks for an id among the revoked ones, where there are any
    tq.stopping.revoke(["somebody else's"])
    field = name.split()[0]
    with pytest.raises(OptionError, match=rf"^{field}: .* is not allowed; expected") as caught:
        noop.apply_async(**IMPOSSIBLE[name])
    assert caught.value.name == field
    assert tq.stopping.purge() == 0
    with pytest.raises(BulkError) as bulk:
        tq.submit_many([(noop,), (noop, (), {}, IMPOSSIBLE[name]), (noop,)])
    assert list(bulk.value.errors) == [1]
    assert isinstance(bulk.value.errors[1], OptionError)
    assert bulk.value.ids[1] is None
    assert tq.stopping.purge() == 2
    tq.producers.close()
