"""The real thing, small: a server, scheduler processes and Celery workers for one arm."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from redis.exceptions import RedisError

from tq_celery.embedded import EmbeddedServer
from tq_celery.errors import ReplayError, SettingsError, StoreUnavailableError
from tq_celery.replay.arm import Arm
from tq_celery.replay.feed import Event, Feed
from tq_celery.replay.processes import Processes
from tq_celery.settings import Settings
from tq_celery.store.client import connect, safe_url
from tq_celery.store.keys import Keys
from tq_celery.store.redis_store import RedisStore

__all__ = ["Cluster", "ClusterShape"]

#: Seconds that server, schedulers and workers may take until all are ready.
START_TIMEOUT = 40.0


@dataclass(frozen=True, slots=True)
class ClusterShape:
    """How many of each; ``slots`` is the sum over the workers. Without ``url`` a server is run."""

    slots: int = 16
    workers: int = 1
    schedulers: int = 1
    pool: str = "threads"
    url: str | None = None
    weights: tuple[tuple[str, float], ...] = ()


class Cluster:
    """One arm's processes, as a context manager that waits until they are ready.

    Everything is ended on exit, and every key of the run is removed from a server that is not
    ours. ReplayError says which part did not come up and its last words.
    """

    def __init__(self, policy: str, shape: ClusterShape) -> None:
        self.shape = shape
        self._policy = policy
        self._exit = contextlib.ExitStack()
        self.arm: Arm
        self.feed: Feed
        self.processes: Processes

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            directory = Path(tempfile.mkdtemp(prefix="tq-replay-"))
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
            name = f"replay-{secrets.token_hex(4)}"
            if self.shape.url is None:
                url = stack.enter_context(EmbeddedServer()).url
            else:
                url = self.shape.url
                _greet(url)
                stack.callback(_remove_keys, url, name)
            self.arm = Arm(self._policy, url, name, str(directory), self.shape.slots)
            self.feed = Feed(directory)
            self.processes = Processes(directory)
            stack.callback(self.processes.stop)
            self._start()
            self._exit = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._exit.close()

    def _start(self) -> None:
        if self.arm.scheduled:
            tq = [sys.executable, "-m", "tq_celery.cli", "--url", self.arm.url]
            tq += ["--namespace", self.arm.name]
            for number in range(1, self.shape.schedulers + 1):
                self.processes.start(
                    f"scheduler {number}", [*tq, "scheduler", "--policy", self.arm.policy], {}
                )
            self._set_weights()
        for number in range(1, self.shape.workers + 1):
            slots = self.shape.slots * number // self.shape.workers
            slots -= self.shape.slots * (number - 1) // self.shape.workers
            self.processes.start(
                f"worker {number}",
                [
                    sys.executable, "-m", "celery", "-A", "tq_celery.replay.worker", "worker",
                    "--pool", self.shape.pool, "--concurrency", str(slots),
                    "--hostname", f"replay-{number}@%h", "--loglevel", "WARNING",
                    "--without-mingle", "--without-gossip", "--without-heartbeat",
                ],
                {**self.arm.environ(), "C_FORCE_ROOT": "1"},
            )  # fmt: skip
        self._await_workers()

    def _await_workers(self) -> None:
        ready, give_up = 0, time.monotonic() + START_TIMEOUT
        while ready < self.shape.workers:
            self.processes.check()
            if time.monotonic() > give_up:
                words = self.processes.last_words("worker 1")
                raise ReplayError(f"no worker was ready within {START_TIMEOUT:g} s: {words}")
            time.sleep(0.02)
            ready += sum(event.kind == "R" for event in self.feed.poll())

    def _set_weights(self) -> None:
        if not self.shape.weights:
            return
        settings = Settings.load(None, url=self.arm.url, namespace=self.arm.name)
        with contextlib.closing(RedisStore.open(settings)) as store:
            for tenant, weight in self.shape.weights:
                store.set_weight(tenant.encode(), weight)

    def poll(self) -> list[Event]:
        """Return new events; ReplayError when a process has ended."""
        self.processes.check()
        return self.feed.poll()


def _greet(url: str) -> None:
    """Say at once when a given server cannot be used; a worker would retry for long."""
    if not url.startswith(("redis://", "rediss://")):
        raise SettingsError("url", safe_url(url), "redis:// or rediss://, which Celery reads too")
    with contextlib.closing(connect(url)) as client:
        try:
            client.ping()
        except RedisError as error:
            raise StoreUnavailableError("ping", f"{safe_url(url)}: {error}") from error


def _remove_keys(url: str, name: str) -> None:
    """Remove what one run left on a server that belongs to somebody else."""
    with contextlib.closing(connect(url)) as client, contextlib.suppress(RedisError):
        for pattern in (f"{name}:*", f"{Keys(name).prefix}*"):
            for key in client.scan_iter(match=pattern, count=1000):
                client.unlink(key)
