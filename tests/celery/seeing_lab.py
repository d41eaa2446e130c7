"""A broker, a store, a scheduler in this process, and workers of the application of twins."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from tests import leaks
from tests.celery import seeing_tasks
from tests.celery.events import collected
from tests.servers import ValkeyServer
from tests.waiting import PATIENCE, wait_until
from tq_celery.scheduler.service import Scheduler
from tq_celery.settings import Settings
from tq_celery.store.keys import Keys

ROOT = Path(__file__).resolve().parents[2]


class SeeingLab:
    """``broker`` is a server for Celery's own traffic, ``store`` one for the namespace."""

    def __init__(
        self, folder: Path, store: ValkeyServer, broker: str, backend: str,
        conf: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.folder, self.store = folder, store
        self.environ = {
            seeing_tasks.BROKER: broker,
            seeing_tasks.BACKEND: backend,
            seeing_tasks.CONF: json.dumps(conf or {}),
            seeing_tasks.LETS: str(folder),
            "TQ_URL": f"redis://127.0.0.1:{store.port}/0",
            "TQ_NAMESPACE": "seen",
            "TQ_LEASE": "3.0",
        }
        self.settings = Settings.load(environ=self.environ)
        self.keys = Keys(self.settings.namespace)
        self.client: Any = store.client()
        self.app = seeing_tasks.build(
            self.environ, url=self.settings.url, namespace="seen", lease=3.0
        )
        self.processes: list[subprocess.Popen[bytes]] = []
        self.scheduler = Scheduler(self.settings)
        self.scheduler.start()

    def run(self, name: str, *command: str) -> Path:
        """Start a program of Celery's; returns its log."""
        log = self.folder / f"{name}.log"
        environ = {**os.environ, **self.environ, "PYTHONPATH": str(ROOT), "C_FORCE_ROOT": "1"}
        with log.open("w") as output:
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "celery", "-A", "tests.celery.seeing_main", *command],
                    env=environ, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT,
                )
            )  # fmt: skip
        return log

    def workers(self, *names: str, pool: str = "threads", options: tuple[str, ...] = ()) -> Path:
        """Start workers and wait until they are there; returns the last one's log."""
        announced = self.keys.name("announcements")
        wanted = self.client.hlen(announced) + len(names)
        for name in names:
            log = self.run(
                name, "worker", "-P", pool, "-c", "4", "-n", f"{name}@seen", "-l", "info", "-E",
                "--without-mingle", "--without-gossip", *options,
            )  # fmt: skip
        process = self.processes[-1]
        wait_until(
            lambda: process.poll() is not None or self.client.hlen(announced) >= wanted,
            "the workers announce themselves",
        )
        assert process.poll() is None, log.read_text()
        return log

    def send(self, name: str, *args: Any, **options: Any) -> Any:
        return self.app.tasks[name].apply_async(args, **options)

    def let(self, word: str = "go") -> None:
        """Let the tasks ``hold`` of this word end, now and from now on."""
        (self.folder / f"let-{word}").touch()

    def inspect(self, command: str, *args: Any) -> dict[str, Any]:
        """Return the workers' answers to ``celery inspect``; asks again until all have answered.

        A worker that has just begun does not hear what is asked yet.
        """
        workers = sum("worker" in process.args for process in self.processes)  # type: ignore[operator]
        request = self.app.control.inspect(timeout=5.0, limit=workers)
        give_up = time.monotonic() + PATIENCE
        while True:
            found: dict[str, Any] = getattr(request, command)(*args) or {}
            if len(found) >= workers or time.monotonic() > give_up:
                return found

    def left(self) -> list[str]:
        """Return the namespace's keys that neither design nor the running workers account for."""
        alive = {"workers (zset)", "announcements (hash)"}
        return [each for each in leaks.leaked(self.client, "seen") if each not in alive]

    def events(self) -> AbstractContextManager[list[dict[str, Any]]]:
        """Collect the events that arrive during the block, from a worker's heartbeat on."""
        return collected(self.app, lambda seen: any(e["type"] == "worker-heartbeat" for e in seen))

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()
        self.scheduler.stop()
        self.scheduler.join()
        backend = self.app.backend
        backend.remove_pending_result = lambda result: result
        consumer = getattr(backend, "result_consumer", None)
        if consumer is not None:
            consumer.stop()
        self.app.tq.producers.close()
        self.app.close()
        self.client.close()


@contextmanager
def seeing_lab(folder: Path, **options: Any) -> Iterator[SeeingLab]:
    """Start a store and a lab on it; broker and results are on the same server unless given."""
    with ValkeyServer() as store:
        base = f"redis://127.0.0.1:{store.port}"
        options = {"broker": f"{base}/1", "backend": f"{base}/2", **options}
        lab = SeeingLab(folder, store, **options)
        try:
            yield lab
        finally:
            lab.close()
