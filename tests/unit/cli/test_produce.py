"""``tq produce``: what is submitted, what is recognised, and what is refused in one line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.unit.cli.conftest import Command, Space
from tq_celery.errors import StoreUnavailableError
from tq_celery.produce import target as target_module
from tq_celery.store.record import unpack_delayed, unpack_record
from tq_celery.workloads.registry import make_workload

Ask = Callable[..., Any]
Refused = Callable[..., str]


def ingress(space: Space) -> list[tuple[str, Any]]:
    """Return the submitted tasks: tenant and record, in order."""
    entries = space.client.xrange(space.key("ingress"))
    found = []
    for _, fields in entries:
        queue, tenant, record = unpack_delayed(fields[b"d"])
        assert queue == "produce"
        found.append((tenant.decode(), unpack_record(record)))
    return found


def accepted(space: Space, queue: str = "produce") -> int:
    return int(space.client.hget(space.key("counters"), f"accepted:{queue}") or 0)


def stopped(result: Result) -> str:
    """Return the last line of a run that began and did not come to its end."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    line = result.stderr.splitlines()[-1]
    assert line.startswith("tq: ")
    return line


def test_the_tasks_of_a_workload_are_submitted_with_all_they_have(space: Space, ask: Ask) -> None:
    document = ask("produce", "multi_tenant", "--count", "40", "--at-once", "--seed", "3")
    works = make_workload("multi_tenant", seed=3, count=40)
    found = ingress(space)
    assert [tenant for tenant, _ in found] == [work.tenant for work in works]
    for (_, record), work in zip(found, works, strict=True):
        assert record.cost == pytest.approx(work.cost)
        assert record.priority == work.priority
        assert record.key == f"0.0.0.multi_tenant-3-{work.job}".encode()
    assert document["run"] == "multi_tenant-3"
    assert (document["submitted"], document["total"], document["complete"]) == (40, 40, True)
    assert document["tenants"] == dict(Counter(work.tenant for work in works).most_common())


def test_without_a_count_it_is_a_minute(ask: Ask) -> None:
    document = ask("produce", "uniform", "--rate", "10", "--dry-run")
    assert document["total"] == len(make_workload("uniform", seed=1, window=60.0, rate=10.0))


def test_a_dry_run_asks_no_server_and_shows_what_would_come(tq: Command, space: Space) -> None:
    result = tq("--url", "redis://127.0.0.1:1/0", "produce", "llm", "--window", "10s", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "of llm in 10.0 s, llm-1-0 to llm-1-" in result.stdout
    assert "1.26 x what 16 slots can do" in result.stdout
    assert "chat is meant to have weight 2: tq tenants weight chat 2 --new" in result.stdout
    assert accepted(space) == 0


def test_a_run_is_recognised_also_when_its_tasks_are_gone(
    space: Space, tq: Command, refused: Refused
) -> None:
    """Seen to fail with a finished run taken for an interrupted one."""
    line = ("produce", "fixed", "--seconds", "0s", "--count", "5", "--at-once")
    assert tq(*line).exit_code == 0
    keys = [k for k in space.client.keys(f"{space.store.keys.prefix}*") if b"produced" not in k]
    space.client.delete(*keys)
    said = refused(*line)
    assert "run fixed-1 was submitted before: all 5 tasks" in said
    assert "choose another --seed or --prefix" in said
    assert accepted(space) == 0
    assert tq(*line, "--seed", "2").exit_code == 0
    assert tq(*line, "--prefix", "other").exit_code == 0
    assert accepted(space) == 10


def test_other_tasks_under_the_same_ids_are_refused_before_the_first(
    space: Space, tq: Command, refused: Refused
) -> None:
    line = ("produce", "uniform", "--at-once", "--count")
    assert tq(*line, "5").exit_code == 0
    assert "run uniform-1 is taken: 5 tasks of uniform with other options" in refused(*line, "6")
    assert "run uniform-1 is taken" in refused(*line, "5", "--exec", "cpu")
    assert "run uniform-1 is taken" in refused(*line, "5", "--queue", "other")
    assert accepted(space) == 5


def test_ids_that_somebody_else_has_used_are_named(space: Space, tq: Command) -> None:
    line = ("produce", "uniform", "--at-once", "--count", "5")
    assert tq(*line).exit_code == 0
    space.client.delete(space.key("produced"))
    said = stopped(tq(*line, "--exec", "cpu"))
    assert "task uniform-1-0 was already submitted with another message" in said
    assert "choose another --seed or --prefix" in said


def test_what_is_missing_in_the_deployment_is_said_and_nothing_held_back(
    space: Space, tq: Command
) -> None:
    result = tq("produce", "uniform", "--count", "3", "--at-once")
    assert result.exit_code == 0
    assert "note: no scheduler leads this namespace" in result.stderr
    assert "note: no worker serves queue 'produce'" in result.stderr
    assert "celery -A tq_celery.produce.app worker" in result.stderr
    space.serve("produce")
    document = json.loads(
        tq("produce", "uniform", "--count", "3", "--at-once", "--seed", "2", "--json").stdout
    )
    assert [note[:19] for note in document["notes"]] == ["no scheduler leads "]


def test_a_refusal_in_the_middle_is_told_and_the_rest_follows(space: Space, tq: Command) -> None:
    line = ("produce", "uniform", "--count", "1200", "--at-once")
    said = stopped(tq(*line, env={"TQ_MAX_PENDING": "700"}))
    assert "submitting stopped after 500 of 1200 tasks: namespace" in said
    assert "(tq_max_pending); the same command goes on with the rest" in said
    assert accepted(space) == 700
    document = json.loads(tq(*line, "--json").stdout)
    assert (document["continued"], document["submitted"]) == (500, 700)
    assert accepted(space) == 1200


def test_a_server_that_goes_away_in_the_middle(
    space: Space, tq: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its batch may have arrived; each task is taken once all the same."""
    sender = target_module.Target.sender

    def failing(self: Any, offer: Any) -> Any:
        send, batches = sender(self, offer), []

        def once(works: Any) -> None:
            send(works)
            batches.append(works)
            if len(batches) == 2:
                raise StoreUnavailableError("submit", "connection reset")

        return once

    line = ("produce", "uniform", "--count", "1200", "--at-once")
    monkeypatch.setattr(target_module.Target, "sender", failing)
    said = stopped(tq(*line))
    assert "submitting stopped after 500 of 1200 tasks: submit: connection reset" in said
    monkeypatch.undo()
    result = tq(*line)
    assert result.exit_code == 0, result.output
    assert "run uniform-1 was interrupted: going on at task 500 of 1200" in result.stderr
    assert "the first 500 were there already" in result.stdout
    assert accepted(space) == 1200


def test_an_application_of_ones_own(
    space: Space, tq: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"produce_probe_{space.settings.namespace.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(
        "from celery import Celery\n"
        "from tq_celery import TQ\n"
        "from tq_celery.produce import register\n"
        "app = Celery('probe', broker='memory://', set_as_current=False)\n"
        f"tq = TQ(app, {space.server.url!r}, namespace={space.settings.namespace!r})\n"
        "register(tq)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    line = ("-A", name, "produce", "uniform", "--count", "4", "--at-once")
    assert tq(*line).exit_code == 0
    assert tq(*line, "--queue", "mine", "--seed", "2").exit_code == 0
    assert (accepted(space, "celery"), accepted(space, "mine")) == (4, 4)
    result = tq("--namespace", "elsewhere", *line)
    assert result.exit_code == 2
    assert "application 'probe' sends to namespace" in result.stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("unifrom", "did you mean 'uniform'?"),
        ("", "Missing argument 'WORKLOAD'"),
        ("uniform --count 0", "count: 0 is not allowed"),
        ("uniform --count 5 --window 5s", "either a window or a count"),
        ("uniform --window 5", "expected a number with a unit"),
        ("uniform --window 0s", "window: 0.0"),
        ("uniform --window 100000000s", "window"),
        ("uniform --count 5 --seed -1", "seed: -1"),
        ("uniform --count 5 --load nan", "load: nan"),
        ("uniform --count 5 --load -1", "load: -1.0"),
        ("uniform --count 5 --rate inf --window 1s", "count"),
        ("uniform --window 1s --rate inf", "rate: inf"),
        ("uniform --count 5 --rate 5 --load 1", "--load and --rate: give one of them"),
        ("uniform --count 5 --slots 0", "slots: 0"),
        ("uniform --count 5 --prefix a/b", "prefix: 'a/b'"),
        ("uniform --count 5 --seconds 1s", "seconds: 1.0"),
        ("fixed --count 5", "seconds: None"),
        ("fixed --count 5 --seconds 0s", "tasks per second, where a task takes 0 seconds"),
        ("uniform --count 5 --longest 1ms", "longest: 0.001"),
        ("trace --count 5", "trace: None"),
        ("trace --count 5 --trace nowhere.swf", "nowhere.swf:0: No such file"),
        ("trace --count 5 --trace nowhere.txt", "expected a .swf, .csv"),
        ("uniform --count 5 --trace x.swf", "and for no other"),
        ("uniform --count 5 --deadline -1 0 0", "deadline base: -1.0"),
        ("uniform --count 5 --deadline 1 1 1 --no-deadline", "--deadline and --no-deadline"),
        ("uniform --count 5 --exec both", "'both' is not one of"),
        ("uniform --count 99999999", "count: 99999999"),
        ("uniform --count 5 --queue=", "queue: '' is not allowed"),
    ],
)
def test_bad_options_are_one_line_and_nothing_is_submitted(
    line: str, words: str, space: Space, refused: Refused
) -> None:
    assert words in refused("produce", *line.split())
    assert accepted(space) == 0
    assert not space.client.exists(space.key("produced"))
