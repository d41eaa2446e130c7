"""One soak: a server, two schedulers and two workers that keep being ended while tasks flow."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis

from bench.experiments.soak.account import Account, Fault, account, read_accepted, read_runs
from bench.experiments.soak.server import SoakServer
from bench.harness import books
from bench.harness.process import Process, until
from bench.harness.report import progress
from tq_celery.store.keys import Keys
from tq_celery.store.verify import Verification, verify

__all__ = ["Findings", "Plan", "soak"]

NAMESPACE = "soak"
KEYS = Keys(NAMESPACE)
#: Mean duration of a task in seconds; the producer draws it.
MEAN_SECONDS = 0.05
#: Pools of the workers, with their slots.
POOLS = {"threads": 4, "prefork": 2}
SCHEDULERS = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """What is done for how long; times in seconds."""

    seconds: float = 600.0
    load: float = 0.6
    seed: int = 1
    lease: float = 5.0
    kill_worker_every: float = 10.0
    stop_worker_every: float = 7.0
    kill_leader_every: float = 15.0
    server_every: float = 60.0
    #: Ends the server once more with SIGKILL under ``appendfsync everysec``: a second may be lost.
    everysec_kill: bool = False

    @property
    def rate(self) -> float:
        """Tasks per second that are ``load`` of what the slots can do."""
        return self.load * sum(POOLS.values()) / MEAN_SECONDS


@dataclass
class Findings:
    """What a soak found. ``settled`` has (seconds from the start, tasks settled so far)."""

    account: Account
    faults: list[Fault]
    started: float
    verification: Verification
    settled: list[tuple[float, int]] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether the account balances and no promise was broken."""
        return self.account.passed and self.verification.passed


class _Fleet:
    """Processes that are started again whenever they have ended."""

    def __init__(self, folder: Path, server: SoakServer, lease: float) -> None:
        self.server = server
        self.env = {
            "SOAK_BROKER": server.url(1), "SOAK_RUNS": str(folder / "runs"),
            "TQ_URL": server.url(0), "TQ_NAMESPACE": NAMESPACE, "TQ_LEASE": str(lease),
            "TQ_LEADER_TTL": "1.0", "C_FORCE_ROOT": "1", "TQ_RESULTS_MAXLEN": "none",
        }  # fmt: skip
        self.workers: dict[str, tuple[str, Process]] = {}
        self.schedulers: list[Process] = []
        self.starts = 0

    def start(self) -> None:
        """Start whatever is not running."""
        for pool in POOLS:
            found = self.workers.get(pool)
            if found is None or not found[1].alive:
                self._discard(found and found[1])
                self.workers[pool] = self._worker(pool)
        for process in [each for each in self.schedulers if not each.alive]:
            self.schedulers.remove(process)
            self._discard(process)
        while len(self.schedulers) < SCHEDULERS:
            command = [sys.executable, "-m", "tq_celery.cli", "scheduler"]
            self.schedulers.append(Process("scheduler", command, self.env))

    def _worker(self, pool: str) -> tuple[str, Process]:
        self.starts += 1
        name = f"{pool}{self.starts}@soak"
        command = [
            sys.executable, "-m", "celery", "-A", "bench.experiments.soak.app", "worker",
            "--pool", pool, "--concurrency", str(POOLS[pool]), "--hostname", name,
            "--loglevel", "error", "--without-mingle", "--without-gossip",
        ]  # fmt: skip
        return name, Process(f"worker-{pool}", command, self.env)

    @staticmethod
    def _discard(process: Process | None) -> None:
        if process is not None:
            process.stop()

    def stop(self) -> None:
        """End every process."""
        for _, process in self.workers.values():
            process.signal(signal.SIGTERM)
        for process in [*(each for _, each in self.workers.values()), *self.schedulers]:
            process.stop()

    def leader(self) -> Process | None:
        """Return the scheduler that leads, if it can be told."""
        with contextlib.suppress(redis.RedisError):
            owner = self.server.client.get(KEYS.name("leader"))
            if owner:
                pid = int(owner.decode().rsplit("-", 2)[1])
                return next((each for each in self.schedulers if each.pid == pid), None)
        return None


class _Faults:
    """Does everything that the plan names, at its time."""

    def __init__(self, plan: Plan, fleet: _Fleet) -> None:
        self.plan, self.fleet, self.server = plan, fleet, fleet.server
        self.done: list[Fault] = []
        self._victim = {"kill": 0, "stop": 1}
        self._server_events = 0

    def run(self, started: float, tell: Callable[[], None]) -> None:
        """Do the faults until the plan's time is over, calling ``tell`` about every 50 ms."""
        plan = self.plan
        steps: list[tuple[float, Callable[[], None]]] = [
            (plan.kill_worker_every, lambda: self._worker("kill")),
            (plan.stop_worker_every, lambda: self._worker("stop")),
            (plan.kill_leader_every, self._leader),
            (plan.server_every, self._server),
        ]
        due = [every for every, _ in steps]
        while (now := time.monotonic() - started) < plan.seconds:
            for index, (every, step) in enumerate(steps):
                if now >= due[index] and due[index] < plan.seconds:
                    due[index] += every
                    step()
            self.fleet.start()
            tell()
            time.sleep(0.05)

    def _note(self, kind: str, target: str, at: float) -> None:
        self.done.append(Fault(at, time.monotonic(), kind, target))

    def _worker(self, how: str) -> None:
        """End one worker, by turns each."""
        pools = list(POOLS)
        self._victim[how] += 1
        name, process = self.fleet.workers[pools[self._victim[how] % len(pools)]]
        at = time.monotonic()
        if how == "kill":
            # The whole group, as when a container is killed.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            self._note("worker killed", name, at)
        elif process.alive:
            process.signal(signal.SIGTERM)
            self._note("worker stopped", name, at)

    def _leader(self) -> None:
        process = self.fleet.leader() or self.fleet.schedulers[0]
        at = time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        self._note("leader killed", str(process.pid), at)

    def _server(self) -> None:
        """Shut the server down and start it again; the second time kill it."""
        self._server_events += 1
        at = time.monotonic()
        if self._server_events == 2:
            self.server.kill("always")
            self._note("server killed, appendfsync always", "", at)
        else:
            self.server.restart()
            self._note("server restarted", "", at)

    def lose_a_second(self) -> None:
        """Kill the server while it writes to disk once a second only."""
        at = time.monotonic()
        self.server.kill("everysec")
        self._note("server killed, appendfsync everysec", "", at)


def soak(plan: Plan) -> Findings:
    """Run ``plan``; raises BenchError when what is left does not settle within two minutes."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-soak-") as place,
        SoakServer() as server,
        contextlib.ExitStack() as stack,
    ):
        folder = Path(place)
        (folder / "runs").touch()
        fleet = _Fleet(folder, server, plan.lease)
        stack.callback(fleet.stop)
        fleet.start()
        sent = folder / "accepted"
        producer = Process(
            "producer",
            [sys.executable, "-m", "bench.experiments.soak.producer", str(plan.rate),
             str(plan.seconds), str(plan.seed), str(sent)],
            fleet.env,
        )  # fmt: skip
        stack.callback(producer.stop)
        started = time.monotonic()
        faults, settled = _Faults(plan, fleet), list[tuple[float, int]]()
        told = [0.0]

        def tell() -> None:
            now = time.monotonic() - started
            if now < told[0]:
                return
            told[0] = now + 1.0
            with contextlib.suppress(redis.RedisError):
                settled.append((now, books.settled(books.counters(server.client, KEYS))))
                if len(settled) % 5 == 1:
                    progress(
                        f"soak {now:.0f}/{plan.seconds:.0f} s: {settled[-1][1]:,} settled, "
                        f"{len(faults.done)} faults"
                    )

        faults.run(started, tell)
        if plan.everysec_kill:
            faults.lose_a_second()
        until(lambda: not producer.alive, "the producer to end", 90, 0.2)
        _drain(fleet, server.client, tell)
        found = account(
            read_accepted(sent), _recorded(server.client), read_runs(folder / "runs"),
            faults.done, books.left_over(server.client, KEYS),
        )  # fmt: skip
        return Findings(found, faults.done, started, verify(server.client, KEYS), settled)


def _drain(fleet: _Fleet, client: Any, tell: Callable[[], None]) -> None:
    def done() -> bool:
        fleet.start()
        tell()
        with contextlib.suppress(redis.RedisError):
            counted = books.counters(client, KEYS)
            return books.settled(counted) == counted["accepted"]
        return False

    until(done, "the rest to settle", 120, 0.1)


def _recorded(client: Any) -> Iterator[tuple[tuple[str, int], str]]:
    """Yield key and outcome of each result record."""
    for record in books.result_records(client, KEYS):
        yield (record["id"].decode(), int(record["retries"])), record["outcome"].decode()
