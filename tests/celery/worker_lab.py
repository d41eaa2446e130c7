"""A namespace with a scheduler in this process and real workers in others."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.celery import worker_tasks
from tests.servers import ValkeyServer
from tests.waiting import PATIENCE, wait_until
from tq_celery.scheduler.service import Scheduler
from tq_celery.settings import Settings
from tq_celery.states import Outcome, State
from tq_celery.store.keys import Keys

ROOT = Path(__file__).resolve().parents[2]
#: How each pool is started for tests.
POOLS = {"prefork": 2, "threads": 4, "solo": 1, "gevent": 4}
#: The same with the pool that Celery still has and its makers advise against.
ALL_POOLS = {**POOLS, "eventlet": 4}


class Worker:
    """A worker process with its log."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process, self.log = process, log
        self.pid = process.pid

    def terminate(self, timeout: float = PATIENCE) -> float:
        """Stop it warmly; returns the seconds that took."""
        started = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout)
        return time.monotonic() - started

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def text(self) -> str:
        return self.log.read_text()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None


class WorkerLab:
    """Sends with ``app``; ``worker()`` starts workers; ``close()`` ends everything."""

    #: The application that workers are started with.
    main = "tests.celery.worker_main"

    def __init__(
        self, server: ValkeyServer, folder: Path, *, broker: str | None = None,
        conf: dict[str, Any] | None = None, scheduler: bool = True,
        store: ValkeyServer | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        self.server, self.folder = server, folder
        base = f"redis://127.0.0.1:{server.port}"
        #: The namespace is here, or on ``store``: a server that may fail without the others.
        self.client: Any = (store or server).client()
        self.client.flushall()
        settings = {"lease": 2.0, "namespace": "lab", **settings}
        self.environ = {
            worker_tasks.BROKER: broker or f"{base}/1",
            worker_tasks.BACKEND: f"{base}/2",
            worker_tasks.RUNS: f"{base}/3",
            worker_tasks.CONF: json.dumps(conf or {}),
            "TQ_URL": f"redis://127.0.0.1:{(store or server).port}/0",
            **{f"TQ_{name.upper()}": str(value) for name, value in settings.items()},
        }
        self.settings = Settings.load(environ=self.environ)
        self.keys = Keys(self.settings.namespace)
        self.app = worker_tasks.build(self.environ, url=self.environ["TQ_URL"], **settings)
        self.workers: list[Worker] = []
        self._runs = type(self.client)(port=server.port, host="127.0.0.1", db=3, protocol=2)
        self.scheduler = Scheduler(self.settings) if scheduler else None
        if self.scheduler is not None:
            self.scheduler.start()

    def worker(
        self, pool: str = "prefork", *options: str, concurrency: int | None = None
    ) -> Worker:
        """Start a worker and wait until it has announced itself."""
        known = set(self.announced())
        log = self.folder / f"worker-{len(self.workers)}.log"
        size = ALL_POOLS[pool] if concurrency is None else concurrency
        command = [
            sys.executable, "-m", "celery", "-A", self.main, "worker",
            "-P", pool, "-l", "info", "--without-mingle", "--without-gossip", *options,
        ]  # fmt: skip
        if size:
            command += ["-c", str(size)]
        environ = {**os.environ, **self.environ, "PYTHONPATH": str(ROOT), "C_FORCE_ROOT": "1"}
        with log.open("w") as output:
            process = subprocess.Popen(
                command, env=environ, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT
            )
        worker = Worker(process, log)
        self.workers.append(worker)
        wait_until(
            lambda: not worker.alive or set(self.announced()) - known,
            "the worker announces itself",
        )
        assert worker.alive, worker.text()
        return worker

    def listening(self) -> None:
        """Wait until all workers hear broadcasts, which is a while after their announcement."""
        count = sum(worker.alive for worker in self.workers)
        ping = self.app.control.ping
        wait_until(lambda: len(ping(timeout=1.0, limit=count)) == count, "all workers answer")

    def send(self, name: str, *args: Any, **options: Any) -> Any:
        return self.app.tasks[name].apply_async(args, **options)

    def let(self, word: str = "go") -> None:
        """Let the tasks ``hold`` and ``stock_hold`` of this word end, now and from now on."""
        self._runs.set(f"let:{word}", 1)

    def announced(self) -> dict[str, dict[str, Any]]:
        """Return the announcements by worker."""
        raw = self.client.hgetall(self.keys.name("announcements"))
        return {name.decode(): json.loads(value) for name, value in raw.items()}

    def counters(self) -> dict[str, int]:
        """Return how many tasks were accepted, are in each state and have ended, by queue."""
        raw = self.client.hgetall(self.keys.name("counters"))
        found = {name.decode(): int(value) for name, value in raw.items() if int(value)}
        words = {"accepted", *State, *Outcome}
        return {name: count for name, count in found.items() if name.partition(":")[0] in words}

    def outcomes(self, queue: str = "celery") -> dict[str, int]:
        """Return how many tasks of ``queue`` ended with each outcome."""
        found = self.counters()
        return {str(end): found[f"{end}:{queue}"] for end in Outcome if f"{end}:{queue}" in found}

    def ended(self, outcomes: dict[str, int], queue: str = "celery") -> None:
        """Wait until the tasks of ``queue`` ended just so: a result is there before it is settled.

        A worker sends many settlements at once, so what ``get`` returned may be counted later.
        """
        wait_until(
            lambda: self.outcomes(queue) == outcomes,
            f"{queue} counts {outcomes}",
            last=self.counters,
        )

    def settled(self, count: int, timeout: float = PATIENCE) -> list[dict[str, str]]:
        """Wait for ``count`` results and return them."""
        stream = self.keys.name("results")
        wait_until(lambda: self.client.xlen(stream) >= count, f"{count} tasks settle", timeout)
        return [
            {key.decode(): value.decode() for key, value in fields.items()}
            for _, fields in self.client.xrange(stream)
        ]

    def dead(self) -> list[dict[bytes, bytes]]:
        return [fields for _, fields in self.client.xrange(self.keys.name("dead"))]

    def runs(self, kind: str = "start") -> list[dict[str, Any]]:
        """Return what tasks noted, in order."""
        notes = [json.loads(raw) for raw in self._runs.lrange("runs", 0, -1)]
        return [note for note in notes if note["kind"] == kind]

    def idle(self, queue: str = "celery") -> None:
        """Wait until nothing of ``queue`` is left in any structure."""

        def left() -> dict[str, int]:
            live = {f"{word}:{queue}" for word in ("submitted", "pending", "dispatched", "delayed")}
            found = {name: count for name, count in self.counters().items() if name in live}
            found["deliveries"] = self.client.xlen(self.keys.of_queue("exec", queue))
            found["payloads"] = self.client.hlen(self.keys.name("payload"))
            return found

        wait_until(lambda: not any(left().values()), f"nothing of {queue} is left", last=left)

    def close(self) -> None:
        for worker in self.workers:
            if worker.alive:
                worker.process.send_signal(signal.SIGCONT)
                worker.process.kill()
                worker.process.wait()
        if self.scheduler is not None:
            self.scheduler.stop()
            self.scheduler.join()
        # Results that outlive the server would ask it to forget them.
        self.app.backend.remove_pending_result = lambda result: result
        self.app.backend.result_consumer.stop()
        self.app.tq.producers.close()
        self.app.close()
        logging.getLogger("tq_celery").debug("lab closed")
        self.client.close()
        self._runs.close()
