"""A small cluster of real processes for the chaos tests, and what must hold when it is quiet.

:class:`Cluster` starts schedulers with ``tq scheduler`` and workers with ``celery worker`` beside a
server that the test owns, keeps their logs, and ends everything. :meth:`Cluster.assert_clean` is
how every test ends: each accepted task has exactly one result record, nothing is left anywhere, and
``tq verify`` finds no broken promise.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.harness import books
from tests.chaos.jobs import make_app
from tests.servers import ValkeyServer
from tests.waiting import wait_until
from tq_celery.settings import Settings
from tq_celery.store.contract import Limits, Receipt, Submission, WorkerAnnouncement
from tq_celery.store.keys import GROUP, Keys
from tq_celery.store.redis_store import RedisStore
from tq_celery.store.verify import verify

ROOT = Path(__file__).resolve().parents[2]

#: Celery's chatter between workers says nothing about us and costs each start a second.
QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat")


class _Bulk:
    """Stands in for the producers of an application: keeps what it is given."""

    clock_offset = 0

    def __init__(self) -> None:
        self.taken: list[Submission] = []

    def submit(self, submission: Submission, limits: Limits, **_: bool) -> Receipt:
        self.taken.append(submission)
        return Receipt("accepted", int(time.time() * 1000))


class Program:
    """One process in a session of its own, with its log."""

    def __init__(self, command: list[str], environ: dict[str, str], log: Path) -> None:
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                env=environ,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pid = self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """Kill the process and its children at one blow (SIGKILL)."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def stop(self, timeout: float = 30.0) -> float:
        """Ask it to end (SIGTERM); returns the seconds that took, kills it when it does not."""
        started = time.monotonic()
        if self.alive:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                pytest.fail(f"it did not end within {timeout:g} s:\n{self.tail()}")
        return time.monotonic() - started

    def lines(self) -> list[str]:
        return self.log.read_text("utf-8", "replace").splitlines()

    def tail(self, count: int = 40) -> str:
        return "\n".join(self.lines()[-count:])


class Cluster:
    """See the module. ``lease`` and ``ttl`` in seconds; ``settings`` as ``TQ_*`` for everybody."""

    def __init__(
        self,
        server: ValkeyServer,
        directory: Path,
        *,
        lease: float = 2.0,
        ttl: float = 1.0,
        backend: bool = False,
        broker: str | None = None,
        **settings: Any,
    ) -> None:
        self.server = server
        self.directory = directory
        self.namespace = f"c{uuid.uuid4().hex[:10]}"
        self.keys = Keys(self.namespace)
        self.lease = lease
        self.runs_file = directory / "runs"
        base = server.url.removesuffix("/0")
        self.broker = broker or f"{base}/1"
        self.backend = f"{base}/2" if backend else None
        own = {
            "url": server.url,
            "namespace": self.namespace,
            "lease": lease,
            "leader_ttl": ttl,
            **settings,
        }
        self.environ = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "C_FORCE_ROOT": "1",
            "CHAOS_BROKER": self.broker,
            "CHAOS_BACKEND": self.backend or "",
            "CHAOS_RUNS": str(self.runs_file),
            **{f"TQ_{name.upper()}": str(value) for name, value in own.items()},
        }
        self.app = make_app(self.broker, self.backend, **own)
        self.store = RedisStore.open(Settings.load(environ={}, **own))
        self.client: Any = server.client()
        self.submitted: list[str] = []
        self.programs: list[Program] = []

    # -- processes -----------------------------------------------------------------------------

    def scheduler(self, *flags: str, wait: bool = True) -> Program:
        """Start a scheduler; with ``wait`` it is a leader or a standby when this returns."""
        program = self._start(
            "scheduler", [sys.executable, "-m", "tq_celery.cli", "scheduler", *flags]
        )
        if wait:
            self._ready(program, "scheduler started")
        return program

    def worker(
        self, pool: str = "threads", concurrency: int = 4, *flags: str, wait: bool = True
    ) -> Program:
        """Start a worker; with ``wait`` its slots are announced when this returns."""
        program = self._start(
            "worker",
            [
                sys.executable, "-m", "celery", "-A", "tests.chaos.jobs:app", "worker",
                "--pool", pool, "--concurrency", str(concurrency), "--loglevel", "WARNING",
                "--hostname", f"w{len(self.programs)}@%h", *QUIET, *flags,
            ],
        )  # fmt: skip
        if wait:
            self.announced(program)
        return program

    def announced(self, program: Program) -> None:
        """Wait until the worker has announced itself to the namespace."""
        word = f"-{program.pid}-".encode()

        def there() -> bool:
            assert program.alive, program.tail()
            names = self.client.hkeys(self.keys.name("announcements"))
            return any(word in name for name in names)

        wait_until(there, "worker announces itself", 60)

    def _start(self, kind: str, command: list[str]) -> Program:
        log = self.directory / f"{len(self.programs)}-{kind}.log"
        program = Program(command, self.environ, log)
        self.programs.append(program)
        return program

    def _ready(self, program: Program, words: str) -> None:
        def there() -> bool:
            assert program.alive, program.tail()
            return words in program.log.read_text("utf-8", "replace")

        wait_until(there, words, 60)

    def leader_pid(self) -> int:
        """Return the process id of the leader, 0 when nobody leads."""
        owner = self.client.get(self.keys.name("leader"))
        return int(owner.decode().rsplit("-", 2)[1]) if owner else 0

    def leader(self) -> Program:
        """Wait until one of the schedulers that were started leads; returns it."""

        def leading() -> list[Program]:
            pid = self.leader_pid()
            return [each for each in self.programs if each.pid == pid and each.alive]

        return wait_until(leading, "somebody leads")[0]

    def close(self) -> None:
        """End everything that is still running."""
        for program in reversed(self.programs):
            if program.alive:
                program.kill()
        self.app.tq.producers.close()
        self.app.close()
        self.store.close()
        self.client.close()

    def hold(self, worker: str, count: int, lease: int, slots: int = 0) -> None:
        """Read ``count`` deliveries under a name whose lease of ``lease`` ms runs out."""
        offer = WorkerAnnouncement(worker, ("celery",), slots or count, 0)
        exec_ = self.keys.of_queue("exec", "celery")

        def held() -> bool:
            self.store.renew(offer, lease)
            self.store.read(worker, {"celery": 500}, 50)
            found = self.client.xpending_range(exec_, GROUP, "-", "+", count + 1, worker)
            return len(found) >= count

        wait_until(held, f"{worker} holds {count}", 60)

    # -- tasks ---------------------------------------------------------------------------------

    def send(self, name: str, *args: Any, **options: Any) -> str:
        """Submit one task; returns its id, which is then expected to be settled."""
        task_id = options.pop("task_id", None) or uuid.uuid4().hex
        self.app.tasks[name].apply_async(args, task_id=task_id, **options)
        self.submitted.append(task_id)
        return task_id

    def send_many(self, name: str, count: int, **options: Any) -> None:
        """Submit ``count`` tasks of one kind in few round trips; ``tenant`` may be a function."""
        tq, tenant = self.app.tq, options.pop("tenant", None)
        limits, real, bulk = tq.limits, tq.producers, _Bulk()
        tq.producers = bulk
        try:
            for number in range(count):
                own = {**options, "tenant": tenant(number)} if tenant else options
                self.send(name, **own)
        finally:
            tq.producers = real
        for receipt in self.store.submit_many(bulk.taken, limits):
            assert isinstance(receipt, Receipt), receipt

    def runs(self) -> Counter[str]:
        """Return how often each body started, by the first word it noted."""
        try:
            lines = self.runs_file.read_text().splitlines()
        except FileNotFoundError:
            lines = []
        return Counter(line.split()[0] for line in lines)

    def run_of(self, task_id: str) -> int:
        """Return how often one task has started."""
        return self.runs()[task_id]

    def counters(self) -> Counter[str]:
        """Return the conservation counters, summed over the queues."""
        return books.counters(self.client, self.keys)

    def settled(self) -> int:
        """Return how many tasks have reached an outcome."""
        return books.settled(self.counters())

    def settled_beyond(self, count: int) -> bool:
        """Return whether more than ``count`` tasks have reached an outcome."""
        return self.settled() > count

    def drain(self, timeout: float = 60.0) -> None:
        """Wait until every accepted task is settled."""

        def done() -> bool:
            counters = self.counters()
            ended = books.settled(counters) >= counters["accepted"]
            return ended and not any(counters[word] for word in books.LIVE)

        try:
            wait_until(done, "every accepted task is settled", timeout, 0.05)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.describe()}") from None

    def results(self) -> list[dict[str, bytes]]:
        """Return all result records."""
        return list(books.result_records(self.client, self.keys))

    def queues(self) -> list[str]:
        return [raw.decode() for raw in self.client.smembers(self.keys.name("queues"))]

    def describe(self) -> str:
        """Say where everything is, for a failure's message."""
        logs = "\n".join(f"--- {p.log.name}\n{p.tail(15)}" for p in self.programs)
        return f"counters: {dict(self.counters())}\nleft: {self.left_over()}\n{logs}"

    def left_over(self) -> dict[str, int]:
        """Return the sizes of everything that must be empty when nothing is under way."""
        return books.left_over(self.client, self.keys)

    def assert_clean(self, extra: Iterable[str] = (), timeout: float = 60.0) -> None:
        """Wait for rest, then check that every task was settled once and nothing is left.

        ``extra`` are ids that were accepted beside those of :meth:`send`.
        """
        self.drain(timeout)
        try:
            wait_until(lambda: not self.left_over(), "nothing is left over", interval=0.05)
        except AssertionError:
            raise AssertionError(self.describe()) from None
        counters = self.counters()
        settled = books.settled(counters)
        assert counters["accepted"] == settled, dict(counters)
        records = Counter(
            (r["id"], r["nesting"], r["retries"], r["generation"]) for r in self.results()
        )
        twice = [key for key, count in records.items() if count > 1]
        assert not twice, f"settled twice: {twice[:10]}"
        assert len(records) == settled, (len(records), settled)
        ids = {key[0].decode() for key in records}
        wanted = {*self.submitted, *extra}
        assert wanted <= ids, f"without a result record: {sorted(wanted - ids)[:10]}"
        found = verify(self.client, self.keys, done_memory=self.store.settings.done_memory)
        assert found.passed, f"broken promises: {found.violations[:10]}\n{self.describe()}"


@pytest.fixture
def cluster_of(tmp_path: Path) -> Iterator[Any]:
    """Make clusters that end with the test: ``cluster_of(server, lease=2.0)``."""
    made: list[Cluster] = []

    def make(server: ValkeyServer, **options: Any) -> Cluster:
        directory = tmp_path / f"cluster{len(made)}"
        directory.mkdir()
        made.append(Cluster(server, directory, **options))
        return made[-1]

    yield make
    for cluster in made:
        cluster.close()
