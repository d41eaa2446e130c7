"""What ``--json`` prints: one document on stdout, with the same answer as the words."""

from __future__ import annotations

import json

import pytest

from tests.unit.cli.conftest import Command, Space
from tests.unit.cli.test_help import LEAVES

#: What each command needs to have something to say; ``{dead}`` is a dead letter's entry.
CALLS = {
    "status": [],
    "top": [],
    "explain": ["61636d65-work-1-3"],
    "policy show": [],
    "policy set": ["fifo"],
    "policy cap": ["5"],
    "tenants list": [],
    "tenants weight": ["acme", "2"],
    "tenants cap": ["acme", "3"],
    "tenants pause": ["acme"],
    "tenants resume": ["acme"],
    "queues list": [],
    "queues pause": ["work"],
    "queues resume": ["work"],
    "dlq list": [],
    "dlq show": ["{dead}"],
    "dlq requeue": ["{dead}"],
    "dlq purge": ["{dead}"],
    "cancel": ["some-id"],
    "purge": ["--yes"],
    "drain": ["--dry-run"],
    "doctor": [],
    "verify": [],
    "produce": ["uniform", "--count", "3"],
}
#: Tested where their servers and workers are: these run for long or for ever.
ELSEWHERE = {"scheduler", "flower", "replay", "demo"}


def test_every_command_is_covered() -> None:
    assert {" ".join(path) for path, _ in LEAVES} == {*CALLS, *ELSEWHERE}


@pytest.mark.parametrize("name", CALLS)
def test_one_document(name: str, space: Space, tq: Command) -> None:
    dead = space.bury()
    space.submit(2)
    arguments = [each.format(dead=dead) for each in CALLS[name]]
    result = tq(*name.split(), *arguments, "--json")
    # the doctor answers 1 when something is wrong: here there is no scheduler
    assert result.exit_code in ((0, 1) if name == "doctor" else (0,)), result.output
    document = json.loads(result.stdout)
    assert isinstance(document, dict)
    assert document


@pytest.mark.parametrize("name", CALLS)
def test_errors_stay_one_line_on_stderr(name: str, tq: Command) -> None:
    arguments = [each.format(dead="1-1") for each in CALLS[name]]
    result = tq("--url", "redis://127.0.0.1:1/0", *name.split(), *arguments, "--json")
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("tq: ")
    assert result.stderr.count("\n") == 1
