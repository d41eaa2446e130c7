"""Runs the canvas application, on stock Celery or with a scheduler, and describes what it did."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from celery import _state
from celery.result import AsyncResult, GroupResult, ResultBase

from tests.celery import canvas_app
from tests.celery.canvas_app import without_ids
from tests.servers import ValkeyServer
from tests.waiting import wait_until
from tq_celery.scheduler.service import Scheduler
from tq_celery.settings import Settings
from tq_celery.store.keys import Keys

ROOT = Path(__file__).resolve().parents[2]


class CanvasLab:
    """One application, its worker and, with a policy, its scheduler, on a server of its own."""

    def __init__(
        self, server: ValkeyServer, folder: Path, policy: str | None, *, pool: str = "threads",
        concurrency: int = 8, backend: str | None = None, conf: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:  # fmt: skip
        self.policy, self.folder, self.pool = policy, folder, pool
        self.concurrency = concurrency
        base = f"redis://127.0.0.1:{server.port}"
        self.client: Any = server.client()
        self._calls: Any = type(self.client)(port=server.port, host="127.0.0.1", db=3, protocol=2)
        self._broker: Any = type(self.client)(port=server.port, host="127.0.0.1", db=1, protocol=2)
        self._results: Any = type(self.client)(port=server.port, host="127.0.0.1", db=2, protocol=2)
        settings = {"lease": 2.0, "namespace": "canvas", "url": f"{base}/0", **settings}
        if policy is not None:
            settings["policy"] = policy
        self.environ = {
            canvas_app.BROKER: f"{base}/1",
            canvas_app.BACKEND: backend or f"{base}/2",
            canvas_app.CALLS: f"{base}/3",
            canvas_app.CONF: json.dumps(conf or {}),
            canvas_app.SCHEDULED: "yes" if policy is not None else "no",
            **{f"TQ_{name.upper()}": str(value) for name, value in settings.items()},
        }
        self.keys = Keys("canvas")
        scheduled = policy is not None
        self.app: Any = canvas_app.build(
            self.environ, scheduled=scheduled, **(settings if scheduled else {})
        )
        self.scheduler: Scheduler | None = None
        if scheduled:
            self.scheduler = Scheduler(Settings.load(environ={}, **settings))
            self.scheduler.start()
        self.processes: list[subprocess.Popen[bytes]] = []
        self.worker()

    # -- running -------------------------------------------------------------------------------

    def worker(self) -> subprocess.Popen[bytes]:
        """Start a worker; it need not be ready when this returns."""
        log = (self.folder / f"worker-{len(self.processes)}.log").open("wb")
        environ = {**os.environ, **self.environ, "PYTHONPATH": str(ROOT), "C_FORCE_ROOT": "1"}
        with log:
            process = subprocess.Popen(
                [
                    sys.executable, "-m", "celery", "-A", "tests.celery.canvas_app", "worker",
                    "-P", self.pool, "-c", str(self.concurrency), "-l", "warning",
                    "-Q", "celery,other", "-n", f"w{len(self.processes)}@%h",
                    "--without-mingle", "--without-gossip",
                ],
                env=environ, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self.processes.append(process)
        return process

    def log(self) -> str:
        return "".join(path.read_text("utf-8", "replace") for path in self.folder.glob("*.log"))

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make this lab's application the current one, which some signatures fall back on."""
        before = _state._tls.current_app
        self.app.set_current()
        try:
            yield
        finally:
            _state._set_current_app(before)

    def for_tenant(self, name: str) -> Any:
        return self.app.tq.tenant(name) if self.policy is not None else nullcontext()

    def send(self, workflows: dict[str, Any]) -> dict[str, ResultBase]:
        """Send all workflows at once, each for one of seven tenants."""
        sent = {}
        with self.current():
            for index, (name, workflow) in enumerate(workflows.items()):
                with self.for_tenant(f"tenant-{index % 7}"):
                    sent[name] = workflow(self.app.named)
        return sent

    def wait_quiet(self, results: dict[str, ResultBase], timeout: float = 60.0) -> None:
        """Wait until every result is there, no worker has a task and none was called for long."""
        waiting = dict(results)

        def ended() -> bool:
            for name in [name for name, each in waiting.items() if each.ready()]:
                del waiting[name]
            return not waiting

        try:
            wait_until(ended, "every workflow ends", timeout, 0.05)
        except AssertionError as error:
            error.add_note(f"without an end: {sorted(waiting)}; in flight: {self._live()}")
            raise
        if self.scheduler is not None:
            wait_until(lambda: not self._live(), "nothing is in flight")
        before, since = None, time.monotonic()
        while time.monotonic() - since < 0.6:
            now = (self.calls(), self._results.dbsize())
            if now != before or self._broker_has():
                before, since = now, time.monotonic()
            time.sleep(0.05)

    def _broker_has(self) -> int:
        """Return how many ordinary tasks wait in the broker's queues or are not acknowledged."""
        names = ("celery", "other")
        return sum(self._broker.llen(name) for name in names) + self._broker.hlen("unacked")

    def _live(self) -> list[str]:
        live = ("submitted:", "delayed:", "pending:", "dispatched:")
        return [
            f"{n} {value}" for n, value in self.counters().items() if value and n.startswith(live)
        ]

    def counters(self) -> dict[str, int]:
        raw = self.client.hgetall(self.keys.name("counters"))
        return {name.decode(): int(value) for name, value in raw.items()}

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        if self.scheduler is not None:
            self.scheduler.stop()
            self.scheduler.join()
            self.app.tq.producers.close()
        backend = self.app.backend
        backend.remove_pending_result = lambda result: result
        if hasattr(backend, "result_consumer"):
            backend.result_consumer.stop()
        self.app.close()
        for client in (self.client, self._calls, self._broker, self._results):
            client.close()

    # -- what came of it -----------------------------------------------------------------------

    def calls(self) -> dict[str, int]:
        """Return how often each task was called with which arguments."""
        return {k.decode(): int(v) for k, v in self._calls.hgetall("calls").items()}

    def states(self) -> Counter[str]:
        """Return every task's record in the result backend, ids left out, with its number."""
        found: Counter[str] = Counter()
        for key in self._results.scan_iter("celery-task-meta-*", count=1000):
            raw = self._results.get(key)
            if raw is None:
                continue
            meta = json.loads(raw)
            kept = (
                meta.get("name"), meta["status"], meta.get("retries"), meta.get("queue"),
                _plain(meta["result"]), _plain(meta.get("children")),
            )  # fmt: skip
            found[str(kept)] += 1
        return found


def _plain(value: Any) -> str:
    """Return a result without what differs from run to run: ids, pids, the order of children."""
    return without_ids(json.dumps(value, sort_keys=True))


def describe(result: Any, depth: int = 0) -> Any:
    """Return a result as plain data: its value and state, its parents, and its children."""
    if isinstance(result, GroupResult):
        found: dict[str, Any] = {"members": [describe(each, depth + 1) for each in result.results]}
    else:
        assert isinstance(result, AsyncResult)
        found = {"state": result.state, "value": without_ids(repr(result.result))}
        if result.ready() and depth < 6:
            children = [describe(each, depth + 1) for each in result.children or ()]
            found["children"] = sorted(children, key=repr)
    if result.parent is not None and depth < 6:
        found["parent"] = describe(result.parent, depth + 1)
    return found
