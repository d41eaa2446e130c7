"""A scheduler and a worker in processes of their own, on whatever URL they are given."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import redis
from click.testing import CliRunner

from tests.celery import worker_tasks
from tests.celery.worker_lab import ROOT
from tests.servers import ValkeyServer
from tests.waiting import wait_until
from tq_celery.cli import main

#: Every command that asks the server, with what it takes.
COMMANDS = (
    "status", "policy show", "policy set wfq", "policy cap 50", "policy cap none",
    "tenants list", "tenants weight default 2 --new", "tenants cap default 9",
    "tenants pause default", "tenants resume default", "queues list", "queues pause celery",
    "queues resume celery", "dlq list", "dlq show {dead}", "dlq requeue {dead}", "dlq purge --all",
    "cancel nothing", "produce uniform --count 3", "explain {ended}", "top --once", "purge --yes",
    "doctor", "verify",
)  # fmt: skip
#: ``scheduler`` runs all the time, the next two bring servers of their own, ``drain`` sends to the
#: broker, which is Celery's client, and ``flower`` runs until it is ended (test_flower_page.py).
APART = {"scheduler", "demo", "replay", "drain", "flower"}


class Deployment:
    """``url`` is the scheduler's server; ``broker``, ``backend`` and ``conf`` are Celery's own."""

    def __init__(
        self, url: str, folder: Path, *, broker: str, backend: str, runs: str,
        settings: dict[str, Any] | None = None, **conf: Any,
    ) -> None:  # fmt: skip
        self.url, self.folder = url, folder
        self.environ = {
            worker_tasks.BROKER: broker,
            worker_tasks.BACKEND: backend,
            worker_tasks.RUNS: runs,
            worker_tasks.CONF: json.dumps(conf),
            "TQ_URL": url,
            "TQ_NAMESPACE": "lab",
            "TQ_LEASE": "2",
            **{f"TQ_{name.upper()}": json.dumps(v) for name, v in (settings or {}).items()},
        }
        self.app = worker_tasks.build(
            self.environ,
            url=url,
            namespace="lab",
            routes={"no.such.*": {}},
            **(settings or {}),
        )
        self.said: list[str] = []
        self.processes: list[tuple[subprocess.Popen[bytes], Path]] = []
        self._runs = redis.Redis.from_url(runs, protocol=2)

    def start(self, pool: str) -> None:
        """Start both, and wait until the worker has announced itself."""
        self._spawn("scheduler", "tq_celery.cli", "scheduler")
        self._spawn(
            "worker", "celery", "-A", "tests.celery.worker_main", "worker", "-P", pool, "-c", "2",
            "-l", "info",
        )  # fmt: skip

        def announced() -> bool:
            for process, log in self.processes:
                assert process.poll() is None, log.read_text()
            return bool(json.loads(self.command("--json status"))["workers"])

        wait_until(announced, "the worker announces itself")

    def _spawn(self, name: str, *command: str) -> None:
        log = self.folder / f"{name}.log"
        environ = {**os.environ, **self.environ, "PYTHONPATH": str(ROOT)}
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", *command], cwd=ROOT, env=environ, stdout=output,
                stderr=output,
            )  # fmt: skip
        self.processes.append((process, log))

    def command(self, line: str, expected: int = 0) -> str:
        """Run a command of ``tq`` and return what it printed."""
        result = CliRunner().invoke(main, line.split(), env=self.environ)
        text = result.output + (result.stderr or "")
        self.said.append(text)
        assert result.exit_code == expected, f"tq {line}: {text}"
        return result.output

    def exercise(self) -> None:
        """Use everything once: sending, running, delays, retries, commands of every kind."""
        tasks = self.app.tasks
        assert tasks["add"].delay(1, 2).get(timeout=30) == 3
        assert tasks["add"].apply_async((1, 2), countdown=0.3).get(timeout=30) == 3
        assert tasks["again"].delay(1).get(timeout=30) == "done"
        ids = self.app.tq.submit_many(tasks["add"].s(n, n) for n in range(20))
        assert [self.app.AsyncResult(i).get(timeout=30) for i in ids] == [2 * n for n in range(20)]
        revoked = tasks["add"].apply_async((1, 1), countdown=3600)
        self.app.control.revoke(revoked.id)
        wait_until(lambda: revoked.state == "REVOKED", "the revoked task is told of")
        tasks["noop"].apply_async(countdown=3600)
        assert self.app.control.purge() == 1
        # A message that no worker can run becomes a dead letter.
        self.app.send_task("no.such.task")

        def letters() -> Any:
            return json.loads(self.command("--json dlq list"))["entries"]

        wait_until(letters, "the dead letter")
        for line in COMMANDS:
            dead = letters()[0]["entry"] if "{dead}" in line else ""
            self.command(line.format(dead=dead, ended=ids[-1]))

    def runs(self) -> list[dict[str, Any]]:
        """Return what tasks noted."""
        return [json.loads(raw) for raw in self._runs.lrange("runs", 0, -1)]

    def logs(self) -> str:
        return "\n".join(log.read_text() for _, log in self.processes)

    def close(self) -> None:
        """End everything; may be called twice."""
        for process, _ in self.processes:
            process.terminate()
        for process, _ in self.processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.app.backend.remove_pending_result = lambda result: result
        self.app.backend.result_consumer.stop()
        self.app.tq.producers.close()
        self.app.close()
        self._runs.close()


def plain(server: ValkeyServer, db: int) -> str:
    """Return a server's address for what is not under test."""
    return f"redis://127.0.0.1:{server.port}/{db}"
