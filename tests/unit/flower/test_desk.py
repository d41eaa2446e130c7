"""What the web asks of a namespace: bounded, shared, and with its errors in words."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.unit.cli.conftest import Space, space
from tq_celery.embedded import free_port
from tq_celery.errors import SchemaError, StoreUnavailableError
from tq_celery.flower import desk as module
from tq_celery.flower.api import part
from tq_celery.flower.desk import Desk, Refused
from tq_celery.settings import Settings
from tq_celery.states import Outcome
from tq_celery.store.contract import Settlement

__all__ = ["space"]


@pytest.fixture
def desk(space: Space) -> Iterator[Desk]:
    made = Desk(space.settings)
    yield made
    made.close()


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every question read anew."""
    monkeypatch.setattr(module, "FRESH", 0.0)


@pytest.fixture
def away() -> Desk:
    return Desk(Settings(url=f"redis://127.0.0.1:{free_port()}/0", namespace="nowhere"))


def test_an_empty_namespace(desk: Desk) -> None:
    found = part(desk, "overview", "waiting", 50, "")
    nobody: dict[str, object] = {
        "owner": None,
        "epoch": 0,
        "fence": 0,
        "remaining": 0,
        "standbys": [],
    }
    assert found["leader"] == nobody
    assert found["policy"]["name"] is None
    assert found["queues"] == found["tenants"] == found["workers"] == found["letters"] == []
    assert (found["dead"], found["found"], found["more"]) == (0, 0, False)


def test_the_whole_picture(space: Space, desk: Desk) -> None:
    space.bury("worker lost", tenant=b"unlucky", queue="doomed")
    space.submit(3, tenant=b"\xff\x00")
    space.submit(2, tenant=b"acme", queue="other", delay=60_000)
    space.admit_all()
    space.serve(slots=2)
    space.store.elect("me", 10_000)
    found = part(desk, "overview", "waiting", 50, "")
    assert found["leader"]["owner"] == "me"
    assert found["policy"] == {
        "name": "wfq", "order_within": "arrival", "ageing": None, "generation": 1,
        "max_running": None, "unranked": 0,
    }  # fmt: skip
    counts = {
        row["queue"]: (row["pending"], row["delayed"], row["slots"]) for row in found["queues"]
    }
    assert counts == {"doomed": (0, 0, 0), "other": (0, 2, 0), "work": (3, 0, 2)}
    assert [each["tenant"] for each in found["tenants"]] == ["hex:ff00", "acme", "unlucky"]
    assert [each["waiting"] for each in found["tenants"]] == [3, 0, 0]
    assert found["tenants"][0]["oldest"] > 0
    (letter,) = found["letters"]
    assert (letter["reason"], letter["task"], letter["tenant"]) == (
        "worker lost", "proj.add", "unlucky",
    )  # fmt: skip
    assert letter["preview"] == '{"headers": {"task": "proj.add"}, "body": "[]"}'


def test_tenants_are_sorted_searched_and_cut(space: Space, desk: Desk) -> None:
    for number, name in enumerate((b"ab", b"abc", b"x")):
        space.submit(number + 1, tenant=name)
    space.admit_all()
    space.store.set_weight(b"ab", 5)

    def named(order: str = "waiting", limit: int = 9, search: str = "") -> list[str]:
        found = part(desk, "tenants", order, limit, search)
        assert found["found"] == (2 if search else 3)
        return [each["tenant"] for each in found["tenants"]]

    assert named() == ["x", "abc", "ab"]
    assert named("tenant") == ["ab", "abc", "x"]
    assert named("weight") == ["ab", "abc", "x"]
    assert named(limit=1) == ["x"]
    assert named(search="b") == ["abc", "ab"]


def test_who_asks_within_a_second_shares_one_reading(
    space: Space, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail without the keeping: every open page then read everything."""
    taken: list[None] = []

    def take(*args: object) -> dict[str, object]:
        taken.append(None)
        return {"queues": []}

    monkeypatch.setattr(module, "take", take)
    for _ in range(5):
        desk.snapshot()
    assert len(taken) == 1
    space.submit()
    desk.pause_tenant("acme")
    desk.snapshot()
    assert len(taken) == 2, "an action is seen at once"


def test_a_server_that_is_away_is_asked_once_a_second(
    away: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[None] = []

    def read(*args: object) -> None:
        asked.append(None)
        raise StoreUnavailableError("workers", "refused")

    monkeypatch.setattr(module, "take", read)
    for _ in range(3):
        with pytest.raises(StoreUnavailableError):
            away.snapshot()
    assert len(asked) == 1


def test_it_is_there_again_when_the_server_is(
    space: Space, fresh: None, make_server, wait_until
) -> None:
    server = make_server()
    desk = Desk(Settings(url=server.url, namespace="there"))
    assert desk.snapshot()["queues"] == []
    server.stop()
    with pytest.raises(StoreUnavailableError, match="refused|closed"):
        desk.snapshot()
    server.start()
    assert desk.snapshot()["queues"] == []


def test_requeue(space: Space, desk: Desk) -> None:
    entry = space.bury()
    assert [each["entry"] for each in desk.dead()] == [entry]
    assert desk.dead_letter(entry)["reason"] == "worker lost"
    assert desk.requeue(entry) == {"entry": entry, "outcome": "requeued"}
    assert desk.dead() == []
    space.admit_all()
    assert desk.snapshot()["tenants"][0]["live"] == 1
    for question in (desk.requeue, desk.dead_letter):
        with pytest.raises(Refused, match=f"no such dead letter: {entry}") as refused:
            question(entry)
        assert refused.value.status == 404


def test_long_messages_are_cut(space: Space, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tq_celery.flower.snapshot.PREVIEW", 12)
    space.bury()
    assert desk.dead()[0]["preview"] == '{"headers": …'


def test_dead_letters_are_read_again_only_when_there_are_others(
    space: Space, desk: Desk, fresh: None
) -> None:
    space.bury()
    first = desk.dead()
    assert desk.dead() is first
    space.bury()
    assert len(desk.dead()) == 2


def test_weights_and_pauses(space: Space, desk: Desk) -> None:
    space.submit(tenant=b"acme")
    space.submit(tenant=b"\xff")
    desk.set_weight("acme", "2.5")
    desk.pause_tenant("hex:ff")
    desk.pause_queue("work")
    found = {each["tenant"]: each for each in desk.snapshot()["tenants"]}
    assert (found["acme"]["weight"], found["acme"]["paused"]) == (2.5, False)
    assert (found["hex:ff"]["weight"], found["hex:ff"]["paused"]) == (1.0, True)
    assert desk.snapshot()["queues"][0]["paused"]
    desk.resume_tenant("hex:ff")
    desk.resume_queue("work")
    assert not any(each["paused"] for each in desk.snapshot()["tenants"])
    assert not desk.snapshot()["queues"][0]["paused"]


def test_a_tenant_that_has_no_more_tasks_is_listed_and_can_be_set(space: Space, desk: Desk) -> None:
    """Seen to answer that there is no such tenant."""
    space.submit(tenant=b"done")
    held = space.deliver()
    space.store.complete("w1", [Settlement(held.token, Outcome.COMPLETED, held.digest, 1.0, 2.0)])
    assert [each["tenant"] for each in desk.snapshot()["tenants"]] == ["done"]
    desk.set_weight("done", "3")
    assert [each["weight"] for each in desk.snapshot()["tenants"]] == [3.0]


@pytest.mark.parametrize(
    ("status", "said", "question"),
    [
        (404, "no such tenant: nobody has no settings", lambda d: d.pause_tenant("nobody")),
        (400, "tenant: 'hex:f' is not hex: followed", lambda d: d.resume_tenant("hex:f")),
        (404, "no such queue: nothing never took a task", lambda d: d.pause_queue("nothing")),
        (400, "weight: 'much' is not allowed; expected", lambda d: d.set_weight("acme", "much")),
        (400, "weight: '0' is not allowed; expected", lambda d: d.set_weight("acme", "0")),
        (400, "weight: 'nan' is not allowed; expected", lambda d: d.set_weight("acme", "nan")),
        (400, "entry: '1-x' is not a dead letter's", lambda d: d.requeue("1-x")),
    ],
)
def test_what_cannot_be_done_is_said(desk: Desk, status: int, said: str, question) -> None:
    with pytest.raises(Refused, match=said) as refused:
        question(desk)
    assert refused.value.status == status


def test_a_namespace_of_another_version_is_not_written(space: Space, desk: Desk) -> None:
    """Seen to fail without the check: a Flower of this version then wrote into the other's."""
    space.submit()
    space.client.hset(space.key("config"), "schema", "2")
    with pytest.raises(SchemaError, match="has schema 2; this version works with 1"):
        desk.pause_tenant("acme")
    assert not space.client.exists(space.key("paused_tenants"))


def test_a_thousand_tenants_take_few_round_trips(space: Space, desk: Desk) -> None:
    """How long it takes is for ``python -m tests.celery.flower_times`` to say.

    Seen to fail with one read per tenant instead of one per 500.
    """
    for number in range(1_000):
        space.submit(queue=f"q{number % 3}", tenant=b"t%d" % number)
        space.submit(queue="all", tenant=b"t%d" % number)
    space.admit_all()
    settled = {"admitted": "1", "started": "2", "finished": "3"}
    pipe = space.client.pipeline()
    for number in range(2_000):
        pipe.xadd(space.key("results"), {"tenant": b"t%d" % (number % 1_000), **settled})
    pipe.execute()

    def reads() -> int:
        return int(space.client.info("stats")["total_reads_processed"])

    before = reads()
    found = json.dumps(part(desk, "overview", "waiting", 1_000, ""))
    taken = reads() - before
    print(f"{taken} reads")
    assert len(json.loads(found)["tenants"]) == 1_000
    assert json.loads(found)["tenants"][0]["served"] == 2
    assert taken < 250
