"""What a worker reads from Celery's Redis backend about a chord whose member was lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery
from celery.app.task import Context

from tests.celery.recording import Lab
from tq_celery.worker.chords import claim_left, part_is_settled

#: Celery's Redis backend uses a command that redis-py calls deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning")


@pytest.fixture(params=[True, False], ids=["ordered", "as they come"])
def lab(request: pytest.FixtureRequest, server: Any, namespace: str) -> Iterator[Lab]:
    """Parts are kept in a sorted set, or with ``result_chord_ordered = False`` in a list."""
    lab = Lab(backend=server.url, settings={"namespace": namespace})
    lab.app.conf.result_backend_transport_options = {
        "global_keyprefix": f"{namespace}-",
        "result_chord_ordered": request.param,
    }

    @lab.tq.task(name="body", shared=False)
    def body(values: Any) -> None: ...

    yield lab
    keys = list(lab.app.backend.client.scan_iter(f"{namespace}-*"))
    if keys:
        lab.app.backend.client.delete(*keys)
    lab.app.backend.client.close()
    lab.app.close()


def member(app: Celery, index: int) -> Context:
    """Return the request of the member at this place in the header of the chord ``chord-id``."""
    body = app.signature("body", options={"task_id": "body-id", "reply_to": "x"})
    return Context({"id": f"m{index}", "group": "chord-id", "group_index": index, "chord": body})


def test_a_claim_is_waited_for_until_it_ends(lab: Lab) -> None:
    """A finished chord and one without a claim hold nothing back."""
    backend, request = lab.app.backend, member(lab.app, 0)
    key = backend.get_key_for_group("chord-id", ".c")
    assert claim_left(backend, request) == 0
    backend.client.set(key, "token", px=60_000)
    assert 30_000 < claim_left(backend, request) <= 60_200
    assert claim_left(backend, Context({"id": "alone"})) == 0
    backend.client.set(key, "done", px=4000)
    assert claim_left(backend, request) == 0


def test_a_part_that_was_stored_and_not_counted_is_counted(lab: Lab) -> None:
    """The process died between the two: Celery takes the task for done and the chord waits on.

    Counting a part twice is harmless, and the part that completes the header sends the body.
    """
    backend = lab.app.backend
    backend.set_chord_size("chord-id", 2)
    for _ in range(2):
        assert part_is_settled(backend, member(lab.app, 0), 1)
        assert not lab.taken
    assert part_is_settled(backend, member(lab.app, 1), 2)
    assert [each.key.id for each in lab.taken] == ["body-id"]
    assert part_is_settled(backend, member(lab.app, 1), 2)
    assert len(lab.taken) == 1


def test_a_body_that_may_not_have_been_sent_is_not_settled(lab: Lab) -> None:
    """The holder of the claim is gone: the part has to come again when the claim has ended."""
    backend = lab.app.backend
    backend.set_chord_size("chord-id", 1)
    key = backend.get_key_for_group("chord-id", ".c")
    backend.client.set(key, "of the dead", px=60_000)
    assert not part_is_settled(backend, member(lab.app, 0), 1)
    backend.client.delete(key)
    assert part_is_settled(backend, member(lab.app, 0), 1)
    assert [each.key.id for each in lab.taken] == ["body-id"]


def test_a_backend_that_cannot_be_asked_holds_nothing_back(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any) -> None:
        raise ConnectionError("away")

    monkeypatch.setattr(lab.app.backend, "get_key_for_group", away)
    assert claim_left(lab.app.backend, member(lab.app, 0)) == 0
