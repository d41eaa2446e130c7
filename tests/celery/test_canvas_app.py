"""The canvas application gives the same results, states and calls as on stock Celery.

All workflows are sent at once to one worker, for seven tenants; what stock Celery made of them is
what each policy is compared with. The trace of a workflow includes its parents and children.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.celery.canvas_lab import CanvasLab, describe
from tests.celery.canvas_workflows import ENDLESS, WORKFLOWS
from tests.servers import ValkeyServer

#: Celery's Redis backend uses a command that redis-py calls deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning")


class Trace(NamedTuple):
    """What an arm made of the workflows."""

    results: dict[str, Any]
    calls: dict[str, int]
    states: dict[str, int]
    counters: dict[str, int]


def run(policy: str | None, folder: Path, pool: str = "threads") -> Trace:
    """Run every workflow once and return what came of it."""
    with ValkeyServer() as server:
        lab = CanvasLab(
            server, folder, policy, pool=pool, concurrency=2 if pool == "prefork" else 8
        )
        try:
            sent = lab.send(WORKFLOWS)
            lab.wait_quiet({n: result for n, result in sent.items() if n not in ENDLESS}, 120)
            with lab.current():
                results = {name: describe(result) for name, result in sent.items()}
            return Trace(results, lab.calls(), lab.states(), lab.counters())
        finally:
            lab.close()


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """The trace on stock Celery with a Redis broker."""
    return run(None, tmp_path_factory.mktemp("stock"))


def differences(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """Return what is not the same, by name: ours and stock's."""
    names = sorted(ours.keys() | theirs.keys())
    return {n: (ours.get(n), theirs.get(n)) for n in names if ours.get(n) != theirs.get(n)}


def _values(trace: Any) -> Any:
    if "members" in trace:
        return [_values(each) for each in trace["members"]]
    return trace["value"] if trace["state"] == "SUCCESS" else trace["state"]


def test_stock(stock: Trace) -> None:
    """The control group: everything ends, but for what Celery leaves without an end."""
    values = {name: _values(trace) for name, trace in stock.results.items()}
    assert {name for name, value in values.items() if value == "PENDING"} == ENDLESS
    assert values["chord in order"] == "[[0, 1, 2, 3, 4, 5, 6, 7, 8]]"
    assert values["two chords in a chain"] == "10"
    assert values["chunks"] == ["[0, 2, 4]", "[6, 8, 10]", "[12]"]
    assert values["replaced by chord of chords, inside a chain"] == "8228"
    assert values["failure before a group body"] == ["FAILURE", "FAILURE"]
    assert values["chord of group of chord (1)"] == "10"
    assert len(WORKFLOWS) > 250
    assert len({call.partition("(")[0] for call in stock.calls}) >= 60, "tasks that were called"


@pytest.mark.parametrize(
    ("policy", "pool"),
    [
        ("wfq", "threads"),
        pytest.param("fifo", "threads", marks=pytest.mark.slow),
        pytest.param("priority", "threads", marks=pytest.mark.slow),
        pytest.param("edf", "threads", marks=pytest.mark.slow),
        pytest.param("wfq", "prefork", marks=pytest.mark.slow),
        pytest.param("wfq", "gevent", marks=pytest.mark.slow),
    ],
)
def test_same_as_stock(policy: str, pool: str, stock: Trace, tmp_path: Path) -> None:
    """Results with their parents and children, every state, every call: all as on stock Celery.

    But for what has no end there: with a scheduler it fails, which is one more record each.
    """
    ours = run(policy, tmp_path, pool)
    other = differences(ours.results, stock.results)
    assert set(other) == ENDLESS, {name: other[name] for name in set(other) - ENDLESS}
    assert {ours.results[name]["state"] for name in ENDLESS} == {"FAILURE"}
    assert not differences(ours.calls, stock.calls)
    found, theirs = Counter(ours.states), Counter(stock.states)
    more = found - theirs
    assert more.total() == len(ENDLESS)
    assert all("'FAILURE'" in record for record in more)
    assert not theirs - found
    # and it was our scheduler that most of them went through, each to exactly one outcome
    accepted = sum(v for k, v in ours.counters.items() if k.startswith("accepted:"))
    settled = sum(
        value
        for name, value in ours.counters.items()
        if name.partition(":")[0] in {"completed", "failed", "retried", "replaced"}
    )
    assert accepted == settled
    assert accepted > len(WORKFLOWS) * 2
    assert ours.counters["replaced:celery"] > len(WORKFLOWS) // 4
