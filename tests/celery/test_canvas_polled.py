"""Chords where the result backend does not join them: ``celery.chord_unlock`` polls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from celery import chord, group

from tests.celery.canvas_lab import CanvasLab
from tests.celery.canvas_workflows import WORKFLOWS
from tests.celery.recording import Lab, add
from tests.servers import ValkeyServer

#: What stock Celery makes of these with a Redis backend, and with this one.
EXPECTED: dict[str, Any] = {
    "chord": 30,
    "chord in order": [list(range(9))],
    "chord of none": 0,
    "chord of one": 2,
    "chord with an ordinary body": 1,
    "chord all ordinary": 22,
    "chord with partials": 22,
    "chord with a chain as body": 26,
    "chord with a chord as body": "3-2",
    "chord then task": 8,
    "chord of chords": 9,
    "chord of chains": [2, 4, 6],
    "chord over queues": 3,
    "chunks then task": 42,
    "task, group, task": 7,
    "two chords in a chain": 10,
    "chain in group in chord": 12,
    "retries in a chord": [1, 2, 3],
    "sends in a chord": 55,
    "chord of chain of group (0)": 6,
    "chain of chord of chord (1)": 9,
    "replaced by chord, in a chord": None,
    "replaced by group, inside a chain": None,
    "failure in a chord": "FAILURE",
    "failing body": "FAILURE",
}


@pytest.mark.slow
def test_polled_chords_give_the_same_results(tmp_path: Path) -> None:
    """On files as result backend: results, order and failures as where Redis joins."""
    results = tmp_path / "results"
    results.mkdir()
    with ValkeyServer() as server:
        lab = CanvasLab(server, tmp_path, "wfq", backend=results.as_uri())
        try:
            sent = lab.send({name: WORKFLOWS[name] for name in EXPECTED})
            lab.wait_quiet(sent, 90)
            found = {
                name: result.result if result.state == "SUCCESS" else result.state
                for name, result in sent.items()
            }
            calls = lab.calls()
        finally:
            lab.close()
    replaced = {name for name, value in EXPECTED.items() if value is None}
    assert {n: v for n, v in found.items() if n not in replaced} == {
        n: v for n, v in EXPECTED.items() if n not in replaced
    }
    assert all(isinstance(found[name], int) for name in replaced)
    assert calls["identity([0, 1, 2, 3, 4, 5, 6, 7, 8],)"] == 1
    assert calls["on_error('b11', 'ChordError')"] == 1


def test_the_rpc_backend_has_no_chords() -> None:
    """As in Celery, which refuses a chord there; groups and chains work."""
    lab = Lab(backend="rpc://")
    task = add(lab)
    with pytest.raises(NotImplementedError, match="chords"):
        chord([task.s(1, 1)], task.s(2)).delay()
    group(task.s(1, 1), task.s(2, 2)).delay()
    (task.s(1, 1) | task.s(2)).delay()
    assert len(lab.taken) == 3
    lab.app.close()
