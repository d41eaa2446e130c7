"""A namespace with the ``tq`` command aimed at it, and ways to put tasks into every state."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.servers import ValkeyServer
from tests.waiting import wait_until
from tq_celery.cli import main
from tq_celery.scheduler.service import Scheduler
from tq_celery.settings import Settings
from tq_celery.store.contract import Delivery, Limits, Submission, WorkerAnnouncement
from tq_celery.store.record import TaskKey
from tq_celery.store.redis_store import RedisStore


@dataclass
class Space:
    """One namespace; tasks are driven through it by hand, without threads."""

    server: ValkeyServer
    settings: Settings
    store: RedisStore

    def submit(self, count: int = 1, queue: str = "work", tenant: bytes = b"acme", **options):
        for number in range(count):
            key = TaskKey(f"{tenant.hex()}-{queue}-{number}-{self._next()}")
            payload = json.dumps({"headers": {"task": "proj.add"}, "body": "[]"}).encode()
            self.store.submit(
                Submission(key, queue, tenant, payload, bytes(16), **options), Limits()
            )

    def serve(self, queue: str = "work", slots: int = 4, lease: int = 30_000) -> None:
        self.store.renew(
            WorkerAnnouncement("w1", (queue,), slots, 0, host="host", pid=7, pool="solo"), lease
        )

    def rounds(self, done: Callable[[], object], what: str) -> None:
        """Let a scheduler work in this thread until ``done``."""
        scheduler = Scheduler(self.settings)

        def step() -> object:
            scheduler.run_once()
            return done()

        try:
            wait_until(step, what)
        finally:
            epoch = scheduler.leadership.epoch()
            scheduler.stop()
            self.store.resign(scheduler.owner, epoch)

    def admit_all(self) -> None:
        self.rounds(lambda: not self.client.xlen(self.key("ingress")), "ingress is empty")

    def deliver(self, queue: str = "work") -> Delivery:
        """Have one task dispatched and read by worker w1."""
        self.serve(queue)
        self.rounds(
            lambda: self.client.xlen(self.store.keys.of_queue("exec", queue)),
            "a task is dispatched",
        )
        return self.store.read("w1", {queue: 1}, 0)[0]

    def bury(self, reason: str = "worker lost", **options: Any) -> str:
        """Make one dead letter; returns its entry."""
        self.submit(**options)
        assert self.store.bury("w1", self.deliver(options.get("queue", "work")).token, reason)
        entry, _ = self.client.xrevrange(self.key("dead"), count=1)[0]
        return entry.decode()

    def key(self, word: str) -> str:
        return self.store.keys.name(word)

    @property
    def client(self) -> Any:
        return self.store.client

    _serial = 0

    def _next(self) -> int:
        self._serial += 1
        return self._serial


@pytest.fixture
def space(server: ValkeyServer, namespace: str) -> Iterator[Space]:
    settings = Settings(url=server.url, namespace=namespace)
    store = RedisStore.open(settings)
    yield Space(server, settings, store)
    store.close()


Command = Callable[..., Result]


@pytest.fixture
def tq(space: Space) -> Command:
    """Run ``tq`` in the test's namespace."""

    def run(*args: str, env: dict[str, str] | None = None) -> Result:
        aim = ["--url", space.server.url, "--namespace", space.settings.namespace]
        return CliRunner().invoke(main, [*aim, *args], env=env, catch_exceptions=False)

    return run


@pytest.fixture
def ask(tq: Command) -> Callable[..., Any]:
    """Run ``tq --json`` and return the document."""

    def run(*args: str) -> Any:
        result = tq(*args, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return run


@pytest.fixture
def refused(tq: Command) -> Callable[..., str]:
    """Run ``tq``, which must end with exit code 2 and one line on stderr; returns the line."""

    def run(*args: str, env: dict[str, str] | None = None) -> str:
        result = tq(*args, env=env)
        assert result.exit_code == 2, result.output
        assert result.stdout == ""
        assert result.stderr.startswith("tq: ")
        assert result.stderr.count("\n") == 1
        return result.stderr.strip()

    return run
