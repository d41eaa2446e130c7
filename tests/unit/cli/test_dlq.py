"""``tq dlq``."""

from __future__ import annotations

import json

from tests.unit.cli.conftest import Command, Space


def test_list(space: Space, tq: Command, ask) -> None:
    entry = space.bury("worker lost")
    document = ask("dlq", "list")
    assert document["dead"] == 1
    (letter,) = document["entries"]
    assert letter["entry"] == entry
    assert (letter["task"], letter["queue"], letter["tenant"]) == ("proj.add", "work", "acme")
    assert (letter["reason"], letter["attempts"]) == ("worker lost", 0)
    assert letter["message"] == {"headers": {"task": "proj.add"}, "body": "[]"}
    assert entry in tq("dlq", "list").stdout


def test_list_filters_and_says_what_it_left_out(space: Space, tq: Command, ask) -> None:
    space.bury(tenant=b"a")
    space.bury(tenant=b"b")
    space.bury(tenant=b"b", queue="other")
    assert [e["tenant"] for e in ask("dlq", "list", "--tenant", "b")["entries"]] == ["b", "b"]
    assert [e["queue"] for e in ask("dlq", "list", "--queue", "other")["entries"]] == ["other"]
    assert "1 of 3 dead letters are shown" in tq("dlq", "list", "--limit", "1").stderr


def test_show(space: Space, tq: Command, ask) -> None:
    entry = space.bury()
    assert ask("dlq", "show", entry)["task"] == "proj.add"
    text = tq("dlq", "show", entry).stdout
    assert "reason:   worker lost" in text
    assert '"task": "proj.add"' in text


def test_show_an_entry_nobody_could_read(space: Space, tq: Command, ask) -> None:
    """Garbage is kept with its bytes instead of stopping who reads it."""
    space.client.xadd(space.key("ingress"), {"garbage": b"\xff\x00"})
    space.rounds(lambda: space.client.xlen(space.key("dead")), "the entry is buried")
    (letter,) = ask("dlq", "list")["entries"]
    assert letter["raw"] == {"garbage": "hex:ff00"}
    assert "raw garbage: hex:ff00" in tq("dlq", "show", letter["entry"]).stdout


def test_requeue_sends_the_task_through_the_queue_again(space: Space, tq: Command, ask) -> None:
    entry = space.bury()
    document = ask("dlq", "requeue", entry)
    assert document["requeued"] == 1
    assert document["entries"] == {entry: "requeued"}
    assert ask("status")["submitted"] == 1
    assert ask("status")["dead"] == 0
    assert space.deliver().key.startswith(b"0.0.1.")


def test_requeue_all_of_a_queue(space: Space, tq: Command, ask) -> None:
    space.bury(queue="a")
    space.bury(queue="b")
    assert tq("dlq", "requeue", "--all", "--queue", "a").stdout == "1 requeued\n"
    assert [e["queue"] for e in ask("dlq", "list")["entries"]] == ["b"]
    assert tq("dlq", "requeue", "--all", "--queue", "a").stdout == "nothing to requeue\n"


def test_requeue_what_is_not_there(space: Space, tq: Command) -> None:
    result = tq("dlq", "requeue", "1-1")
    assert result.exit_code == 2
    assert result.stderr == "tq: 1-1 is not among the dead letters\n"


def test_requeue_what_is_no_task(space: Space, tq: Command) -> None:
    entry = space.client.xadd(space.key("dead"), {"reason": "unreadable", "raw_x": "y"}).decode()
    result = tq("dlq", "requeue", entry, "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["unreadable"] == 1


def test_purge(space: Space, tq: Command, ask) -> None:
    first, second = space.bury(), space.bury()
    assert ask("dlq", "purge", first) == {"purged": 1}
    assert tq("dlq", "purge", "--all", "--older-than", "1h").stdout == "0 purged\n"
    assert [e["entry"] for e in ask("dlq", "list")["entries"]] == [second]
    assert tq("dlq", "purge", "--all").stdout == "1 purged\n"


def test_more_than_one_page(space: Space, ask) -> None:
    for number in range(450):
        space.client.xadd(space.key("dead"), {"key": f"0.0.0.t{number}", "queue": "q"})
    assert len(ask("dlq", "list", "--limit", "1000")["entries"]) == 450
    assert ask("dlq", "purge", "--all") == {"purged": 450}


def test_nothing_is_changed_by_accident(space: Space, refused) -> None:
    entry = space.bury()
    for verb in ("requeue", "purge"):
        assert "name the entries, or say --all" in refused("dlq", verb)
        assert "name the entries, or say --all" in refused("dlq", verb, entry, "--all")
        assert "filters go with --all" in refused("dlq", verb, entry, "--queue", "x")
        assert "is not a dead letter's entry" in refused("dlq", verb, "everything")
    assert refused("dlq", "show", "1-1") == "tq: no such dead letter: 1-1"
