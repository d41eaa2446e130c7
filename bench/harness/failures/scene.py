"""One namespace on a server, and the real processes of a run around it.

Schedulers, workers and producers are started as a user would start them. Each may have an address
of its own, so that a proxy can stand between it and the server. Leaving the scene ends all of them.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis

from bench.harness import books
from bench.harness.errors import BenchError
from bench.harness.failures.bodies import Body, bodies
from bench.harness.failures.load import Load, Orders
from bench.harness.failures.records import Dispatch, dispatches
from bench.harness.failures.signals import resume
from bench.harness.process import Process, until
from tq_celery.store.keys import Keys

__all__ = ["APP", "Scene"]

APP = "bench.harness.failures.app"
#: Celery's chatter between workers says nothing about us and costs each start a second.
_QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat")
#: Seconds for a process to start on a machine that has other work.
START = 60.0


class Scene:
    """See the module.

    ``url`` is the address of the namespace, ``broker`` that of Celery's own broker (by default
    database 1 of the same server), ``client`` what the scene itself looks through (by default a
    client of ``url``). ``ttl`` and ``lease`` in seconds; ``env`` is for every process.
    """

    def __init__(
        self,
        url: str,
        *,
        broker: str | None = None,
        backend: str = "",
        client: Any = None,
        ttl: float = 2.0,
        lease: float = 30.0,
        namespace: str = "failures",
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.url, self.keys, self.ttl, self.lease = url, Keys(namespace), ttl, lease
        self._stack = contextlib.ExitStack()
        place = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-failures-"))
        self.folder = Path(place)
        #: Starts and ends of bodies; see :mod:`bench.harness.failures.app`.
        self.runs = self.folder / "runs"
        self.runs.touch()
        if client is None:
            client = redis.Redis.from_url(url)
            self._stack.callback(client.close)
        self.client: Any = client
        self.env = {
            "FAILURES_BROKER": broker or f"{url.rpartition('/')[0]}/1",
            "FAILURES_BACKEND": backend, "FAILURES_RUNS": str(self.runs),
            "TQ_URL": url, "TQ_NAMESPACE": namespace, "TQ_LEASE": str(lease),
            "TQ_LEADER_TTL": str(ttl), "TQ_RESULTS_MAXLEN": "none", "C_FORCE_ROOT": "1",
            **(env or {}),
        }  # fmt: skip
        self.schedulers: list[Process] = []
        self.workers: list[Process] = []
        self.loads: list[Load] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            for process in self.processes:
                # A frozen process would not hear that it is asked to end.
                resume(process)
                process.ask_to_stop()
        finally:
            self._stack.close()

    @property
    def processes(self) -> list[Process]:
        """Every process that was started, ended ones included; producers first."""
        return [*(each.process for each in self.loads), *self.workers, *self.schedulers]

    # -- processes -----------------------------------------------------------------------------

    def scheduler(
        self,
        *,
        url: str | None = None,
        env: Mapping[str, str] | None = None,
        program: Sequence[str] = ("-m", "tq_celery.cli", "scheduler"),
        wait: bool = True,
    ) -> Process:
        """Start a scheduler; with ``wait`` it leads or stands by when this returns.

        ``program`` are the interpreter's arguments, for a scheduler with a patch.
        """
        name = f"scheduler-{len(self.schedulers) + 1}"
        process = self._start(name, [sys.executable, *program], url, env)
        self.schedulers.append(process)
        if wait:
            self._said(process, "scheduler started")
        return process

    def worker(
        self,
        pool: str = "threads",
        concurrency: int = 8,
        *flags: str,
        url: str | None = None,
        env: Mapping[str, str] | None = None,
        app: str = APP,
        program: Sequence[str] = ("-m", "celery"),
        wait: bool = True,
    ) -> Process:
        """Start a worker; with ``wait`` its slots are announced when this returns."""
        name = f"worker{len(self.workers) + 1}"
        command = [
            sys.executable, *program, "-A", app, "worker", "--pool", pool,
            "--concurrency", str(concurrency), "--loglevel", "warning",
            "--hostname", f"{name}@bench", *_QUIET, *flags,
        ]  # fmt: skip
        process = self._start(name, command, url, env)
        self.workers.append(process)
        if wait:
            self.announced(process)
        return process

    def announced(self, worker: Process, timeout: float = START) -> None:
        """Wait until the worker has announced itself; raises BenchError."""
        word = f"-{worker.pid}-".encode()

        def there() -> bool:
            worker.check()
            names = self.client.hkeys(self.keys.name("announcements"))
            return any(word in name for name in names)

        until(there, f"{worker.name} to announce itself", timeout)

    def load(
        self,
        rate: float,
        seconds: float,
        *,
        url: str | None = None,
        env: Mapping[str, str] | None = None,
        **orders: Any,
    ) -> Load:
        """Start sending; ``orders`` are further fields of :class:`.load.Orders`."""
        path = self.folder / f"calls-{len(self.loads) + 1}"
        own = {**self.env, **({"TQ_URL": url} if url else {}), **(env or {})}
        load = Load(Orders(rate, seconds, **orders), path, own)
        self._stack.callback(load.process.stop)
        self.loads.append(load)
        return load

    def _start(
        self, name: str, command: list[str], url: str | None, env: Mapping[str, str] | None
    ) -> Process:
        own = {**self.env, **({"TQ_URL": url} if url else {}), **(env or {})}
        process = Process(name, command, own)
        self._stack.callback(process.stop)
        return process

    @staticmethod
    def _said(process: Process, words: str) -> None:
        def there() -> bool:
            process.check()
            return words in process.output()

        until(there, f"{process.name} to say {words!r}", START)

    # -- leadership ----------------------------------------------------------------------------

    def leader(self) -> Process | None:
        """Return the scheduler that holds the lease, if one of ours does."""
        owner = self.client.get(self.keys.name("leader"))
        pid = int(owner.decode().rsplit("-", 2)[1]) if owner else 0
        return next((each for each in self.schedulers if each.pid == pid and each.alive), None)

    def await_leader(self, timeout: float = 30.0) -> Process:
        """Wait until one of the schedulers leads; raises BenchError."""
        until(lambda: self.leader() is not None, "a scheduler to lead", timeout)
        found = self.leader()
        if found is None:
            raise BenchError("the scheduler that led has ended at once")
        return found

    def now(self) -> int:
        """Return the server's clock in ms."""
        seconds, microseconds = self.client.time()
        return int(seconds) * 1000 + int(microseconds) // 1000

    # -- books ---------------------------------------------------------------------------------

    def records(self) -> list[Dispatch]:
        """Return every result record, in the order of dispatch."""
        return dispatches(self.client, self.keys)

    def bodies(self) -> list[Body]:
        """Return every start and end of a body so far."""
        return bodies(self.runs)

    def broken(self) -> list[str]:
        """Return the promises that ``tq verify`` finds broken, in words."""
        return books.broken(self.client, self.keys)

    def settled(self) -> int:
        """Return how many tasks have reached an outcome."""
        return books.settled(books.counters(self.client, self.keys))

    def left(self) -> dict[str, int]:
        """Return the sizes of what is not empty although nothing should be under way."""
        return books.left_over(self.client, self.keys)

    def drained(self, timeout: float = 60.0) -> None:
        """Wait until every accepted task is settled and nothing is left; raises BenchError."""

        def done() -> bool:
            with contextlib.suppress(redis.RedisError):
                counted = books.counters(self.client, self.keys)
                if books.settled(counted) == counted["accepted"]:
                    return not self.left()
            return False

        try:
            until(done, "every accepted task to be settled", timeout, 0.05)
        except BenchError as error:
            counted = dict(books.counters(self.client, self.keys))
            raise BenchError(f"{error}; counters {counted}, left {self.left()}") from None
