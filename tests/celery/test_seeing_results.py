"""Result backends: what is kept of a scheduled task is what is kept of its stock twin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery.result import AsyncResult

from tests.celery.seeing_lab import SeeingLab, seeing_lab
from tests.servers import RabbitServer
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

#: Seconds after which the backends forget, in these tests.
EXPIRES = 1800


@pytest.fixture(scope="module", params=["redis", "database", "rpc on redis", "rpc on rabbitmq"])
def lab(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SeeingLab]:
    folder: Path = tmp_path_factory.mktemp("results")
    options: dict[str, Any] = {}
    if request.param == "database":
        options["backend"] = f"db+sqlite:///{folder}/results.db"
    elif request.param == "rpc on redis":
        options["backend"] = "rpc://"
    elif request.param == "rpc on rabbitmq":
        rabbit: RabbitServer = request.getfixturevalue("rabbit_server")
        options |= {"backend": "rpc://", "broker": rabbit.url}
    with seeing_lab(folder, conf={"result_expires": EXPIRES}, **options) as lab:
        lab.workers("one")
        lab.kind = request.param  # type: ignore[attr-defined]
        yield lab


def test_results_arrive_with_everything_that_is_kept(lab: SeeingLab) -> None:
    """``get()``, states, tracebacks, and what ``result_extended`` adds."""
    metas: dict[str, dict[str, Any]] = {}
    for family in ("tq", "stock"):
        good, bad = lab.send(f"{family}.add", 1, 2), lab.send(f"{family}.fail")
        assert good.get(timeout=30) == 3
        with pytest.raises(ValueError, match="as asked"):
            bad.get(timeout=30)
        assert (good.state, bad.state) == ("SUCCESS", "FAILURE")
        assert "as asked" in bad.traceback
        metas[family] = dict(good._get_task_meta())
    ours, stock = metas["tq"], metas["stock"]
    assert set(ours) == set(stock)
    for name in ("status", "result", "args", "kwargs", "worker", "retries", "queue"):
        assert ours.get(name) == stock.get(name), name
    if lab.kind in ("redis", "database"):  # type: ignore[attr-defined]
        assert ours["name"] == "tq.add"
        assert ours["queue"] == "celery"


def test_many_results_find_their_callers(lab: SeeingLab) -> None:
    """Under rpc:// each caller has one reply queue and tells results apart by correlation id."""
    results = [lab.send("tq.add", number, 1) for number in range(40)]
    assert [each.get(timeout=30) for each in reversed(results)] == list(range(40, 0, -1))


def test_a_task_retried_keeps_its_result(lab: SeeingLab) -> None:
    assert lab.send("tq.again").get(timeout=30) == "done"


def test_a_delayed_task_answers_when_it_has_run(lab: SeeingLab) -> None:
    assert lab.send("tq.add", 1, 2, countdown=0.5).get(timeout=30) == 3


def test_ignored_results_are_not_kept(lab: SeeingLab) -> None:
    quiet = [lab.send("tq.quiet"), lab.send("tq.quiet", True)]
    loud = lab.send("tq.add", 1, 2, ignore_result=True)
    counters = lab.keys.name("counters")

    def live() -> int:
        words = [f"{word}:celery" for word in ("submitted", "pending", "dispatched")]
        return sum(int(count or 0) for count in lab.client.hmget(counters, words))

    wait_until(lambda: not live(), "they ran")
    lab.send("tq.add", 1, 2).get(timeout=30)
    if lab.kind == "redis":  # type: ignore[attr-defined]
        for each in (*quiet, loud):
            assert lab.app.backend.get(lab.app.backend.get_key_for_task(each.id)) is None
    if not lab.kind.startswith("rpc"):  # type: ignore[attr-defined]
        assert [AsyncResult(each.id, app=lab.app).state for each in quiet] == ["PENDING"] * 2


def test_children_are_known_and_results_expire(lab: SeeingLab) -> None:
    children: dict[str, list[str]] = {}
    for family in ("tq", "stock"):
        result = lab.send(f"{family}.parent")
        child = result.get(timeout=30)
        children[family] = ["the child" if each.id == child else each.id for each in
                            result.children or ()]  # fmt: skip
    assert children["tq"] == children["stock"]
    if lab.kind == "redis":  # type: ignore[attr-defined]
        assert children["tq"] == ["the child"]
        backend = lab.app.backend
        left = backend.client.ttl(backend.get_key_for_task(result.id))
        assert EXPIRES - 60 < left <= EXPIRES
