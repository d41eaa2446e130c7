"""``tq queues``."""

from __future__ import annotations

from tests.unit.cli.conftest import Command, Space


def test_list_counts_tasks_by_state(space: Space, ask) -> None:
    space.submit(3)
    space.submit(2, delay=60_000)
    space.deliver()
    space.submit()
    found = ask("queues", "list")["queues"]
    states = ("submitted", "delayed", "pending", "dispatched", "running")
    assert [found[0][state] for state in states] == [1, 2, 0, 2, 1]
    assert (found[0]["workers"], found[0]["slots"]) == (1, 4)
    assert found[0]["totals"]["accepted"] == 6
    assert found[0]["missing"] == 0


def test_list_includes_a_queue_that_only_a_worker_knows(space: Space, tq: Command) -> None:
    space.serve("idle")
    assert "idle" in tq("queues", "list").stdout


def test_pause_keeps_tasks_and_resume_lets_them_go(space: Space, tq: Command, ask) -> None:
    space.submit(2)
    assert tq("queues", "pause", "work").stdout == "work: paused\n"
    space.serve()
    space.admit_all()
    assert ask("queues", "list")["queues"][0]["paused"] is True
    assert ask("queues", "list")["queues"][0]["pending"] == 2
    assert ask("queues", "resume", "work")["paused"] is False
    space.rounds(lambda: space.client.xlen(space.store.keys.of_queue("exec", "work")) == 2, "both")


def test_an_unknown_queue_is_refused_with_a_guess(space: Space, refused) -> None:
    space.submit(queue="reports")
    assert "did you mean reports?" in refused("queues", "pause", "report")
