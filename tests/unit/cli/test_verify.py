"""``tq verify``: exit codes, what people read and what programs read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_an_id_is_shown_on_one_line_whatever_it_is(space: Space, tq: Command) -> None:
    """Seen to fail: it began lines of its own and steered the terminal."""
    space.client.hset(space.key("payload"), b"0.0.0.\x1b[31mred\nheld    all", b"x")
    space.client.hset(space.key("payload"), b"0.0.0." + b"z" * 5000, b"x")
    result = tq("verify")
    assert result.exit_code == 1
    assert "  0.0.0.\\x1b[31mred\\nheld    all has a message and is in no place\n" in result.stdout
    assert max(len(line) for line in result.stdout.splitlines()) < 500


def _real(space: Space, out: Path, encoding: str) -> subprocess.CompletedProcess[str]:
    aim = ["--url", space.server.url, "--namespace", space.settings.namespace]
    with out.open("w") as stdout:
        return subprocess.run(
            [sys.executable, "-m", "tq_celery.cli", *aim, "verify"],
            stdout=stdout, stderr=subprocess.PIPE, text=True, check=False,
            env={**os.environ, "PYTHONIOENCODING": encoding},
        )  # fmt: skip


@pytest.mark.parametrize(
    ("out", "encoding", "said"),
    [
        ("/dev/full", "utf-8", "No space left on device"),
        ("/dev/null", "latin-1", "the output is latin-1, which lacks characters"),
    ],
)
def test_what_cannot_be_written_is_no_broken_promise(
    space: Space, out: str, encoding: str, said: str
) -> None:
    """Seen to fail: a traceback and exit code 1, which says that a promise is broken."""
    space.client.hset(space.key("payload"), "0.0.0.\N{SNOWMAN}", "x")
    ended = _real(space, Path(out), encoding)
    assert ended.returncode == 2
    assert said in ended.stderr
    assert ended.stderr.count("\n") == 1
