"""``tq verify``: exit codes, what people read and what programs read."""

from __future__ import annotations

import json

from tests.unit.cli.conftest import Command, Space
from tq_celery.store.verify.contract import PROMISES


def test_a_namespace_that_keeps_its_promises(space: Space, tq: Command, ask) -> None:
    space.bury()
    space.submit(3)
    result = tq("verify")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("1 results from 2")
    assert lines[0].endswith("Z, 3 live")
    assert [line.split()[0] for line in lines[1:9]] == ["held"] * 8
    assert "held    accepted = settled by outcome + live by state (4)" in lines
    document = ask("verify")
    assert document["passed"] is True
    assert document["violations"] == []
    assert set(document["horizon"]["checked"]) == set(PROMISES)


def test_a_broken_promise_ends_with_code_1_and_the_ids(space: Space, tq: Command) -> None:
    space.submit(12)
    keys = [raw.decode() for raw in space.client.hkeys(space.key("payload"))]
    space.client.delete(space.key("payload"))
    result = tq("verify")
    assert result.exit_code == 1
    assert result.stderr == ""
    assert "broken  every live task is in exactly one place: 12 times\n" in result.stdout
    named = [line for line in result.stdout.splitlines() if line.endswith("and has no message")]
    assert len(named) == 10
    assert {line.split()[0] for line in named} <= set(keys)
    assert "  and 2 more: see --json\n" in result.stdout
    document = json.loads(tq("verify", "--json").stdout)
    assert document["passed"] is False
    assert {each["id"] for each in document["violations"]} == set(keys)
    assert {each["promise"] for each in document["violations"]} == {"one_place"}


def test_trimmed_results_fail_and_are_named(space: Space, tq: Command) -> None:
    space.bury()
    space.client.xtrim(space.key("results"), maxlen=0, approximate=False)
    result = tq("verify")
    assert result.exit_code == 1
    assert f"{space.key('results')} has 0 of 1 entries" in result.stdout
