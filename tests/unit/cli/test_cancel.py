"""``tq cancel``: what waits ends now, what comes later ends then, what runs needs the broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Command, Space
from tq_celery.store.contract import Limits, Submission
from tq_celery.store.record import TaskKey


def submit(space: Space, task_id: str, **headers: object) -> None:
    message = {"headers": {"id": task_id, "task": "proj.add", **headers}, "body": "[]"}
    payload = json.dumps(message).encode()
    space.store.submit(Submission(TaskKey(task_id), "work", b"acme", payload, bytes(16)), Limits())


def test_each_id_gets_its_word(space: Space, tq: Command, ask) -> None:
    submit(space, "held")
    space.deliver()
    submit(space, "waits")
    document = ask("cancel", "waits", "held", "later", "waits")
    assert document == {
        "revoked": 1,
        "dispatched": 1,
        "unknown": 1,
        "ids": {"waits": "revoked", "held": "dispatched", "later": "unknown"},
        "stamped": 0,
        "told": False,
    }
    submit(space, "later")
    assert ask("status")["submitted"] == 0
    assert space.client.hget(space.key("counters"), "revoked:work") == b"2"
    done = tq("cancel", "held", "waits")
    assert done.stdout == ("held: a worker has it\nwaits: not here; remembered in case it comes\n")
    assert "Name the app with --app" in done.stderr


def test_stamps(space: Space, ask, tq: Command) -> None:
    for number, customer in enumerate(["acme", "globex", "acme"]):
        submit(space, f"t{number}", stamped_headers=["customer"], stamps={"customer": customer})
    assert ask("cancel", "--stamp", "customer=acme", "--stamp", "batch=7")["stamped"] == 2
    assert ask("status")["submitted"] == 1
    assert "0 revoked by stamp" in tq("cancel", "--stamp", "customer=acme").stdout


def test_what_makes_no_sense_is_refused(refused) -> None:
    assert "name the tasks, by id or with --stamp" in refused("cancel")
    assert "'customer' is not HEADER=VALUE" in refused("cancel", "--stamp", "customer")
    assert "name the app with --app" in refused("cancel", "some-id", "--terminate")
    assert "an id is empty" in refused("cancel", "some-id", "")
    assert "no signal 'NOPE'" in refused("cancel", "some-id", "--terminate", "--signal", "NOPE")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An application whose broker listens nowhere."""
    (tmp_path / "cancelproj.py").write_text(
        "from celery import Celery\n"
        "app = Celery('cancelproj', broker='redis://127.0.0.1:1/0', set_as_current=False)\n"
        "app.conf.broker_transport_options = {'max_retries': 0, 'connect_retries_timeout': 0.1}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return "cancelproj"


def test_a_broker_that_is_away_is_said_and_the_task_is_revoked(
    space: Space, refused, project: str
) -> None:
    submit(space, "waits")
    line = refused("-A", project, "cancel", "waits", "--terminate", "--signal", "SIGKILL")
    assert "revoked here, but the broker did not answer" in line
    assert space.client.hget(space.key("counters"), "revoked:work") == b"1"
