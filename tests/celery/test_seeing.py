"""Events, remote inspection and states show a scheduled task as they show its stock twin."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import redis

from tests.celery.seeing_lab import SeeingLab, seeing_lab
from tests.waiting import wait_until
from tq_celery.worker.inspecting import LISTED


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeeingLab]:
    """Two workers of the same queue, in threads."""
    with seeing_lab(tmp_path_factory.mktemp("seeing")) as lab:
        lab.workers("one", "two")
        yield lab


#: How each task is sent, and the events that it brings, in whatever order two workers' arrive.
CASES: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "add": ((1, 2), {}, "sent received started succeeded"),
    "fail": ((), {}, "sent received started failed"),
    "again": ((), {}, "sent received started retried succeeded"),
    "refuse": ((), {}, "sent received started failed rejected"),
    "nap": ((0.0,), {"expires": datetime(2020, 1, 1, tzinfo=UTC)}, "sent revoked"),
}


def test_every_event_has_the_fields_that_its_stock_twin_has(lab: SeeingLab) -> None:
    """task-sent, -received, -started, -succeeded, -failed, -retried, -rejected and -revoked.

    Seen to fail with a field taken out of ``task-received``.
    """
    with lab.events() as seen:
        sent = {
            (family, case): lab.send(f"{family}.{case}", *args, **options).id
            for case, (args, options, _) in CASES.items()
            for family in ("tq", "stock")
        }

        def ended() -> bool:
            """What two workers tell may arrive in any order."""
            kinds = {(event["type"], event.get("uuid")) for event in tuple(seen)}
            return kinds >= {
                (f"task-{word}", uuid)
                for (_, case), uuid in sent.items()
                for word in CASES[case][2].split()
            }

        wait_until(
            ended, "all events", last=lambda: sorted((e["type"], e.get("uuid")) for e in seen)
        )
    met: set[str] = set()
    for case in CASES:
        fields: dict[str, dict[str, set[str]]] = {}
        values: dict[str, dict[str, Any]] = {}
        for family in ("tq", "stock"):
            own = [event for event in seen if event.get("uuid") == sent[family, case]]
            fields[family] = {event["type"]: set(event) for event in own}
            values[family] = {
                event["type"]: {
                    name: str(event.get(name)).replace(f"{family}.", "")
                    for name in ("name", "args", "kwargs", "retries", "queue", "exception",
                                 "result", "requeue", "expired", "terminated", "signum", "expires")
                }
                for event in own
            }  # fmt: skip
        assert fields["tq"] == fields["stock"], case
        assert values["tq"] == values["stock"], case
        met |= set(fields["tq"])
    assert met == {
        f"task-{word}"
        for word in "sent received started succeeded failed retried rejected revoked".split()
    }


@pytest.mark.slow
def test_a_running_task_is_active_and_can_be_queried(lab: SeeingLab) -> None:
    tasks = {family: lab.send(f"{family}.hold", "queried") for family in ("tq", "stock")}

    def active() -> dict[str, dict[str, Any]]:
        found = [each for answer in lab.inspect("active").values() for each in answer]
        return {each["name"]: each for each in found}

    both = wait_until(lambda: a if len(a := active()) == 2 else {}, "both run")
    ours, stock = both["tq.hold"], both["stock.hold"]
    assert set(ours) == set(stock)
    assert set(ours["delivery_info"]) == set(stock["delivery_info"])
    assert ours["id"] == tasks["tq"].id
    assert ours["args"] == stock["args"] == ["queried"]
    queried = lab.inspect("query_task", [each.id for each in tasks.values()])
    states = {uuid: state for answer in queried.values() for uuid, (state, _) in answer.items()}
    assert states == {each.id: "active" for each in tasks.values()}
    assert tasks["tq"].state == tasks["stock"].state == "STARTED"
    lab.let("queried")
    assert [each.get(timeout=30) for each in tasks.values()] == ["rested"] * 2


@pytest.mark.slow
def test_fetched_tasks_are_reserved(lab: SeeingLab) -> None:
    """Those that a worker has and has not started: no-ops read ahead behind naps."""
    naps = [lab.send("tq.hold", "reserved") for _ in range(8)]
    more = [lab.send("stock.nap", 0.0) for _ in range(8)]

    def reserved() -> list[Any]:
        return [each for answer in lab.inspect("reserved").values() for each in answer]

    found = wait_until(reserved, "something is reserved")
    assert {each["name"] for each in found} <= {"tq.hold", "stock.nap"}
    lab.let("reserved")
    for each in naps + more:
        each.get(timeout=30)


def test_the_other_commands_answer_as_before(lab: SeeingLab) -> None:
    registered = lab.inspect("registered")
    assert set(registered) == {"one@seen", "two@seen"}
    assert {"tq.add", "stock.add"} <= set(registered["one@seen"])
    (queue,) = lab.inspect("active_queues")["one@seen"]
    assert queue["name"] == "celery"
    assert "celery:5." in lab.inspect("report")["one@seen"]["ok"]
    lab.app.control.revoke("an-id-to-come")
    wait_until(
        lambda: all("an-id-to-come" in ids for ids in lab.inspect("revoked").values()),
        "both know the revoked id",
    )


def test_stats_have_a_section_about_the_store(lab: SeeingLab) -> None:

    def at_rest() -> dict[str, Any]:
        """Return the answers once what other tests sent is settled, which is after its results."""
        found = lab.inspect("stats")
        parts = [stats["tq"] for stats in found.values()]
        return found if not any(part["waiting"] or part["running"] for part in parts) else {}

    answers = wait_until(at_rest, "nothing runs")
    assert set(answers) == {"one@seen", "two@seen"}
    for stats in answers.values():
        section = stats["tq"]
        assert section["namespace"] == "seen"
        assert section["pool"] == "thread"
        assert section["scheduler"] is True
        assert section["store_answers"] is True
        assert section["since_store_answered"] >= 0
        assert 0 < section["lease"]["remaining"] <= section["lease"]["seconds"] == 3.0
        assert section["slots"] == 4
        assert section["ahead"] >= 0
        assert section["waiting"] == section["running"] == 0
        assert "redis://" not in repr(section)
    assert len({stats["tq"]["worker"] for stats in answers.values()}) == 2


def test_delayed_tasks_are_scheduled_and_listed_once(lab: SeeingLab) -> None:
    """Both workers consume the queue and one of them answers; the shape is Celery's.

    Seen to fail when every worker answered for its queues.
    """
    ours = [lab.send("tq.add", number, 1, countdown=60 + number, priority=7) for number in range(3)]
    stock = lab.send("stock.add", 1, 1, countdown=60)

    def listed() -> list[dict[str, Any]]:
        return [each for answer in lab.inspect("scheduled").values() for each in answer]

    try:
        found = wait_until(lambda: a if len(a := listed()) == 4 else [], "all four")
        by_id = {each["request"]["id"]: each for each in found}
        mine, theirs = by_id[ours[0].id], by_id[stock.id]
        assert set(mine) == set(theirs)
        assert set(mine["request"]) == set(theirs["request"])
        assert set(mine["request"]["delivery_info"]) == set(theirs["request"]["delivery_info"])
        assert [by_id[each.id]["request"]["args"] for each in ours] == [
            "(0, 1)", "(1, 1)", "(2, 1)",
        ]  # fmt: skip
        assert mine["priority"] == 7
        assert mine["request"]["name"] == "tq.add"
        due = datetime.fromisoformat(mine["eta"])
        assert abs((due - datetime.now(UTC)).total_seconds() - 60) < 10
    finally:
        lab.app.control.revoke([each.id for each in (*ours, stock)])
    wait_until(  # Celery lists the stock one until its time
        lambda: [each["request"]["id"] for each in listed()] == [stock.id], "ours are gone"
    )


@pytest.mark.slow
def test_a_listing_is_bounded_and_cut(lab: SeeingLab) -> None:
    many = LISTED + 50
    lab.app.tq.submit_many(
        (lab.app.tasks["tq.add"], ("x" * 50_000 if number == 0 else number, 1), {},
         {"countdown": 60 + number}) for number in range(many)
    )  # fmt: skip

    def listed() -> list[dict[str, Any]]:
        answers = [each for answer in lab.inspect("scheduled").values() for each in answer]
        return [each for each in answers if each["request"]["name"] == "tq.add"]

    found = wait_until(listed, "they are listed")
    assert len(found) == LISTED
    assert [each["eta"] for each in found] == sorted(each["eta"] for each in found)
    assert len(repr(found[0])) < 4_000
    assert lab.app.control.purge() >= many


@pytest.mark.slow
def test_long_arguments_are_shown_as_short_text(lab: SeeingLab) -> None:
    """the-momentum/open-wearables #556: replies held a hundred megabytes of arguments.

    Seen to fail without our ``info``.
    """
    task = lab.send("tq.hold", "long", "x" * 300_000)

    def active() -> list[dict[str, Any]]:
        return [each for answer in lab.inspect("active").values() for each in answer]

    (shown,) = wait_until(active, "it runs")
    assert shown["id"] == task.id
    assert shown["args"].startswith("('long', 'xxx")
    assert len(repr(shown)) < 4_000
    lab.let("long")
    assert task.get(timeout=30) == "rested"


@pytest.mark.slow
def test_states_follow_a_task_to_its_end(lab: SeeingLab) -> None:
    result = lab.send("tq.hold", "states")
    wait_until(lambda: result.state != "PENDING", "it starts")
    assert result.state == "STARTED"
    lab.let("states")
    wait_until(lambda: result.state != "STARTED", "it ends")
    assert result.state == "SUCCESS"


@pytest.mark.parametrize("count", [400, pytest.param(2_000, marks=pytest.mark.slow)])
def test_ended_tasks_leave_no_key_behind(lab: SeeingLab, count: int) -> None:
    """django-commons/django-tasks-scheduler #387: half ignored, some failing, all looked at.

    Of the namespace only what is kept by design stays, of the results only what has a time to live.
    """
    tasks = lab.app.tasks
    quiet, add = tasks["tq.quiet"], tasks["tq.add"]
    with redis.Redis(port=lab.store.port, db=2, protocol=2) as results:
        # what earlier tests have purged still gets its results
        wait_until(lambda: lab.left() == [], "nothing is left of other tests", 60, 0.1)
        before = set(results.scan_iter(count=1000))
        lab.app.tq.submit_many(
            quiet.s(fail=number % 40 == 1) if number % 2 else add.s(number, 1)
            for number in range(count)
        )
        for _ in range(10):
            lab.inspect("active")
        wait_until(lambda: lab.left() == [], "nothing is left", 60, 0.1)
        kept: list[bytes] = list(set(results.scan_iter(count=1000)) - before)
        assert len(kept) == count // 2, "ignored results are not written"
        assert all(int(str(results.ttl(key))) > 0 for key in kept)
