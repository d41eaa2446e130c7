"""django-commons/django-tasks-scheduler #387: the number of keys and channels comes back down."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import chord

from tests import leaks
from tests.celery.seeing_lab import ROOT, SeeingLab, seeing_lab
from tests.waiting import wait_until
from tq_celery.store import keys as module

#: What a key's lifetime may be called in the table of keys.
LIFETIMES = ("kept", "capped", "until ", "while ", "TTL ", "as ``", "done memory")
#: Clients that are killed with a reply in their hands.
KILLED = 5

#: A program that asks all workers and is killed with the first reply in its hands.
ASKING = """
import os
from tests.celery.seeing_tasks import build
app = build(os.environ)
kill = lambda reply: os.kill(os.getpid(), 9)
app.control.broadcast("active", reply=True, timeout=10, callback=kill)
"""


def test_every_key_has_an_owner_or_an_end() -> None:
    """The last part of each row in the table of keys; what stays is what ``leaks`` allows.

    Seen to fail with a row that named no lifetime.
    """
    rows: list[tuple[str, str]] = []
    for line in (module.__doc__ or "").splitlines():
        if re.match(r"\S.{29}(string|stream|hash|zset|set) ", line):
            rows.append((line[:30].strip(), line[38:].strip()))
        elif rows and line.startswith(" " * 38):
            rows[-1] = (rows[-1][0], f"{rows[-1][1]} {line.strip()}")
    assert len(rows) > 30
    endless = {name: text for name, text in rows if not text.split("; ")[-1].startswith(LIFETIMES)}
    assert not endless
    stay = ("kept", "capped", "until purged", "done memory")
    kept = {
        word
        for names, text in rows
        if text.split("; ")[-1].startswith(stay)
        for word in names.split(", ")
    }
    assert kept == leaks.KEPT


class Count:
    """How many keys and channels there are, per database of the lab."""

    def __init__(self, lab: SeeingLab) -> None:
        self.clients = {
            name: redis.Redis(port=lab.store.port, db=number, protocol=2)
            for number, name in enumerate(("namespace", "broker", "results"))
        }

    def now(self) -> dict[str, int]:
        """Return the counts."""
        found = {name: int(client.dbsize()) for name, client in self.clients.items()}
        # each client that waits for a result listens on one channel of its own
        channels: Any = self.clients["broker"].pubsub_channels()
        return {**found, "channels": len(channels)}

    def close(self) -> None:
        for client in self.clients.values():
            client.close()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_ten_thousand_tasks_and_killed_clients_leave_nothing(tmp_path: Path) -> None:
    """Half of the tasks ignore their results, some fail; 50 inspections, 5 killed in mid-reply.

    The namespace, the results and the channels are as before. On the broker kombu keeps the replies
    to the killed clients.
    """
    conf = {"result_expires": 5, "task_send_sent_event": False}
    with seeing_lab(tmp_path, conf=conf) as lab:
        lab.workers("one", "two")
        count = Count(lab)
        lab.send("tq.add", 1, 2).get(timeout=30)
        lab.send("stock.add", 1, 2).get(timeout=30)
        with pytest.raises(ValueError):
            lab.send("tq.fail").get(timeout=30)
        lab.inspect("active")
        wait_until(lambda: not count.now()["results"], "the first results expire")
        baseline, broker = count.now(), set(count.clients["broker"].keys())

        tasks = lab.app.tasks
        quiet, add, fail = (tasks[f"tq.{name}"] for name in ("quiet", "add", "fail"))
        lab.app.tq.submit_many(
            quiet.s(fail=number % 40 == 1) if number % 2 else add.s(number, 1) if number % 40
            else fail.s() for number in range(10_000)
        )  # fmt: skip
        environ = {**os.environ, **lab.environ, "PYTHONPATH": str(ROOT)}
        asking = [
            subprocess.Popen([sys.executable, "-c", ASKING], env=environ, cwd=ROOT)
            for _ in range(KILLED)
        ]
        for _ in range(50):
            assert set(lab.inspect("active")) == {"one@seen", "two@seen"}
        assert [each.wait(30) for each in asking] == [-9] * KILLED
        wait_until(lambda: not lab.left(), "nothing is left", 60, 0.1)
        outcomes = lab.client.hgetall(lab.keys.name("counters"))
        assert int(outcomes[b"failed:celery"]) == 250 + 250 + 1
        wait_until(lambda: not count.now()["results"], "the results expire")

        # kombu keeps what was sent to a client that was killed, on Redis and for stock tasks alike
        theirs: set[Any] = set(count.clients["broker"].keys()) - broker
        assert all(key.endswith(b"reply.celery.pidbox") for key in theirs), theirs
        assert len(theirs) <= KILLED + 1
        now = count.now()
        # what ``leaks`` allows may appear once: the dead letters, the search for orphans
        assert now["namespace"] - baseline["namespace"] <= 4
        assert now["channels"] <= baseline["channels"]
        count.close()


@pytest.mark.slow
@pytest.mark.parametrize("expires", [0, None])
def test_results_that_never_expire_are_kept(tmp_path: Path, expires: int | None) -> None:
    """celery/celery #5237: with 0 the key of a chord was removed at once."""
    with seeing_lab(tmp_path, conf={"result_expires": expires}) as lab:
        lab.workers("one")
        add = lab.app.tasks["tq.add"]
        body = lab.app.tasks["tq.nap"].si(0.0)
        done = chord([add.s(number, 1) for number in range(3)], body).delay()
        assert done.get(timeout=30) == "rested"
        backend = lab.app.backend
        assert backend.client.ttl(backend.get_key_for_task(done.id)) == -1
