"""``tq explain``: the state, the position, and every reason to wait."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import Command, Space
from tq_celery.states import Outcome
from tq_celery.store.contract import Limits, Settlement, Submission, WorkerAnnouncement
from tq_celery.store.record import TaskKey

#: An argument, which nobody shall see.
SECRET = "4711-secret"


def submit(space: Space, *ids: str, tenant: bytes = b"acme", **options: Any) -> None:
    for each in ids:
        headers = {"task": "proj.add", "argsrepr": f"({SECRET!r},)"}
        payload = json.dumps({"headers": headers, "body": json.dumps([[SECRET]])}).encode()
        task = Submission(TaskKey(each), "work", tenant, payload, bytes(16), **options)
        space.store.submit(task, Limits())


def lead(space: Space) -> int:
    return space.store.elect("me", 30_000).epoch


@pytest.fixture
def words(ask):
    """The reasons, as words, why a task waits."""

    def run(task_id: str) -> list[str]:
        return [each["word"] for each in ask("explain", task_id)["waits_for"]]

    return run


def test_a_task_behind_others_without_a_free_slot(space: Space, tq: Command, ask) -> None:
    submit(space, "run1", "run2")
    space.serve(slots=2)
    exec_ = space.store.keys.of_queue("exec", "work")
    space.rounds(lambda: space.client.xlen(exec_) == 2, "two are dispatched")
    submit(space, "a1", "a2")
    submit(space, "b1", tenant=b"globex")
    space.admit_all()
    lead(space)
    found = ask("explain", "a2")
    assert (found["state"], found["queue"], found["tenant"]) == ("pending", "work", "acme")
    assert (found["task"], found["policy"], found["key"]) == ("proj.add", "wfq", "0.0.0.a2")
    assert found["position"] == {"before": 2, "of_its_tenant": 1, "at_least": False}
    assert found["share"] == {"weight": 1, "weights": 2, "tenants": 2, "part": 0.5}
    assert found["room"] == {"workers": 1, "slots": 2, "free": 0}
    assert [each["word"] for each in found["waits_for"]] == ["no_slot", "behind"]
    text = tq("explain", "a2").stdout
    assert text.startswith("task:      a2 (proj.add)\nstate:     pending in queue work, for ")
    assert "tenant:    acme: 2 running, 2 pending; share 50% (weight 1 of 2, 2 competing)" in text
    assert "position:  after 2 others\n" in text
    assert text.endswith(
        "waits for: a free slot: all 2 are taken\n"
        "           its turn: 2 tasks go before it, 1 of them its own tenant's\n"
    )
    assert SECRET not in text


def test_no_worker_and_no_leader(space: Space, words) -> None:
    submit(space, "a")
    assert words("a") == ["no_leader", "not_admitted"]
    space.admit_all()
    assert words("a") == ["no_leader", "no_worker"]
    lead(space)
    assert words("a") == ["no_worker"]
    space.serve("other")
    assert words("a") == ["no_worker"]
    space.serve("work")
    assert words("a") == []


def test_submitted_tasks_that_are_first(space: Space, tq: Command) -> None:
    submit(space, "a", "b", "c")
    lead(space)
    assert "waits for: the leader to admit it, behind 2 submitted tasks\n" in (
        tq("explain", "c").stdout
    )


def test_not_due(space: Space, tq: Command, words, wait_until) -> None:
    submit(space, "later", delay=90_000)
    submit(space, "soon", delay=1)
    lead(space)
    assert "waits for: its time: it is not due until 1m" in tq("explain", "later").stdout
    wait_until(lambda: words("soon") == ["not_promoted"], "it is due, and nobody promotes it")


def test_what_an_operator_did(space: Space, tq: Command, words) -> None:
    submit(space, "a")
    space.serve()
    space.store.seed(space.settings)
    space.store.pause_queue("work")
    space.admit_all()
    lead(space)
    assert words("a") == ["queue_paused"]
    space.store.resume_queue("work")
    space.store.pause_tenant(b"acme")
    assert words("a") == ["tenant_paused"]
    assert "position" not in tq("explain", "a").stdout
    space.store.resume_tenant(b"acme")
    space.store.set_cap(b"acme", 1)
    space.client.hset(space.key("running"), "acme", 1)
    assert words("a") == ["tenant_cap"]
    space.store.set_cap(b"acme", None)
    space.store.set_max_running(1)
    space.client.hset(space.key("counters"), "dispatched:work", 1)
    assert words("a") == ["namespace_cap"]


def test_a_switch_of_the_policy(space: Space, words) -> None:
    submit(space, "a")
    space.admit_all()
    space.serve()
    lead(space)
    keys = space.store.keys
    space.client.rename(
        keys.of_tenant("pending", "work", b"acme"), keys.of_tenant("outdated", "work", b"acme")
    )
    assert words("a") == ["switch"]


def test_with_a_worker(space: Space, tq: Command, words) -> None:
    submit(space, "a")
    space.serve()
    space.rounds(lambda: space.client.xlen(space.store.keys.of_queue("exec", "work")), "dispatched")
    assert words("a") == ["unread"]
    (delivery,) = space.store.read("w1", {"work": 1}, 0)
    assert words("a") == []
    text = tq("explain", "a").stdout
    assert "state:     running in queue work by worker w1, for " in text
    assert "waits for: nothing: the worker has it\n" in text
    space.store.complete("w1", [Settlement(delivery.token, Outcome.COMPLETED, bytes(16), 1, 2)])
    text = tq("explain", "a").stdout
    assert "state:     completed in queue work by w1, " in text
    assert "waits for: nothing: it has ended\n" in text


def test_a_worker_that_fell_silent(space: Space, words, wait_until) -> None:
    submit(space, "a")
    space.deliver()
    space.serve(lease=1)
    wait_until(lambda: words("a") == ["lapsed"], "the lease has run out")


def test_slots_of_overlapping_workers_are_counted_once(space: Space, ask) -> None:
    submit(space, "a")
    space.admit_all()
    for name, queues in (("w1", ("work", "x")), ("w2", ("x", "y"))):
        space.store.renew(WorkerAnnouncement(name, queues, 2, 0), 30_000)
    space.client.hset(space.key("counters"), mapping={"dispatched:x": 3})
    assert ask("explain", "a")["room"] == {"workers": 1, "slots": 2, "free": 1}


def test_a_dead_letter_is_named(space: Space, tq: Command, ask) -> None:
    entry = space.bury("worker lost")
    found = ask("explain", "61636d65-work-0-1")
    assert (found["state"], found["reason"], found["dead_letter"]) == ("dead", "worker lost", entry)
    assert f"letter:    tq dlq show {entry}\n" in tq("explain", "61636d65-work-0-1").stdout


def test_a_result_that_is_gone(space: Space, tq: Command) -> None:
    space.bury()
    space.client.delete(space.key("results"))
    assert "it ended; its result is not among" in tq("explain", "61636d65-work-0-1").stdout


def test_unknown_and_revoked_ids(space: Space, refused) -> None:
    assert "nobody was not submitted there, or it ended and is forgotten" in (
        refused("explain", "nobody")
    )
    space.store.revoke(["nobody"])
    assert "nobody is marked as revoked and ends when it comes" in refused("explain", "nobody")


def test_a_message_that_cannot_be_read(space: Space, ask) -> None:
    space.store.submit(Submission(TaskKey("a"), "work", b"t", b"\xff", bytes(16)), Limits())
    assert ask("explain", "a")["task"] == ""


def test_the_page_lists_every_reason() -> None:
    root = Path(__file__).parents[3]
    page = (root / "docs/howto/see-who-waits.md").read_text("utf-8")
    code = (root / "tq_celery/cli/reasons.py").read_text("utf-8")
    words = re.findall(r'Reason\("(\w+)"', code)
    assert sorted(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == sorted(set(words))
    assert len(words) == 15
