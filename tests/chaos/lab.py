"""A namespace on a server that a test may mistreat, and scheduler processes on it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.servers import ValkeyServer
from tests.waiting import PATIENCE, wait_until
from tq_celery.settings import Settings
from tq_celery.store.contract import Limits, Submission, WorkerAnnouncement
from tq_celery.store.record import DELIVERY, TaskKey
from tq_celery.store.redis_store import RedisStore
from tq_celery.store.verify import verify

ROOT = Path(__file__).resolve().parents[2]
#: TTL of the lease in these tests, s. The machine may be busy: a second is short enough.
TTL = 1.0


class SchedulerProcess:
    """One scheduler, its log and what can be done to it."""

    def __init__(self, settings: dict[str, Any], faults: dict[str, Any], log: Path) -> None:
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [
                    sys.executable, "-m", "tests.chaos.scheduler_process",
                    json.dumps(settings), json.dumps(faults),
                ],
                cwd=ROOT, stdout=output, stderr=output,
            )  # fmt: skip
        self.pid = self.process.pid

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def frozen(self) -> bool:
        stat = Path(f"/proc/{self.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "T"

    def alive(self) -> bool:
        return self.process.poll() is None

    def leads(self, lab: Lab) -> bool:
        owner = lab.client.get(lab.key("leader"))
        return owner is not None and f"-{self.pid}-".encode() in owner

    def end(self) -> None:
        if self.alive():
            self.signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()

    def lines(self, word: str) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if word in line]


class Lab:
    """One namespace: submit, look, and start schedulers. ``slots`` is what the workers offer."""

    def __init__(self, server: ValkeyServer, namespace: str, folder: Path, **options: Any) -> None:
        self.server = server
        self.namespace = namespace
        self.folder = folder
        self.options = {
            "url": server.url, "namespace": namespace, "policy": "fifo",
            "leader_ttl": TTL, "lease": 60.0, **options,
        }  # fmt: skip
        self.client = server.client()
        self.store = RedisStore.open(Settings(**self.options))
        self.schedulers: list[SchedulerProcess] = []
        self.submitted = 0

    def close(self) -> None:
        for scheduler in self.schedulers:
            scheduler.end()
        self.store.close()
        self.client.close()

    def key(self, word: str) -> str:
        return self.store.keys.name(word)

    def scheduler(self, **faults: Any) -> SchedulerProcess:
        log = self.folder / f"scheduler-{len(self.schedulers)}.log"
        process = SchedulerProcess(self.options, faults, log)
        self.schedulers.append(process)
        return process

    def leader(self) -> SchedulerProcess:
        """Wait for a leader, and return its process."""
        leading = wait_until(
            lambda: [each for each in self.schedulers if each.leads(self)],
            "one of the schedulers leads",
        )
        return leading[0]

    def worker(self, *queues: str, slots: int = 1_000_000) -> None:
        self.store.renew(WorkerAnnouncement("worker", queues or ("q",), slots, 0), 3_600_000)

    def submit(self, count: int, queue: str = "q", **options: Any) -> None:
        for start in range(0, count, 500):
            tasks = [
                Submission(
                    TaskKey(f"task-{self.submitted + number}"), queue,
                    b"tenant-%d" % (number % 50), b"payload", b"d" * 16, **options,
                )
                for number in range(start, min(count, start + 500))
            ]  # fmt: skip
            receipts = self.store.submit_many(tasks, Limits())
            assert all(getattr(each, "status", "") == "accepted" for each in receipts), receipts[0]
        self.submitted += count

    def dispatched(self, *queues: str) -> list[tuple[tuple[int, int], int, str]]:
        """All dispatches in order: entry id, epoch, task id."""
        found = []
        for queue in queues or ("q",):
            entries: Any = self.client.xrange(self.store.keys.of_queue("exec", queue))
            for entry, fields in entries:
                ms, seq = entry.split(b"-")
                epoch, _ = DELIVERY.unpack_from(fields[b"d"])
                task = TaskKey.decode(fields[b"d"][DELIVERY.size :]).id
                found.append(((int(ms), int(seq)), epoch, task))
        return sorted(found)

    def wait_dispatched(self, count: int, timeout: float = PATIENCE) -> None:
        name = self.store.keys.of_queue("exec", "q")
        wait_until(
            lambda: self.client.xlen(name) >= count, f"{count} tasks are dispatched", timeout
        )

    def check_once(self, *queues: str) -> None:
        """Every submitted task was dispatched exactly once, and no promise is broken.

        Epochs never went backwards, and ``tq verify`` agrees.
        """
        records = self.dispatched(*queues)
        tasks = Counter(task for _, _, task in records)
        assert [task for task, times in tasks.items() if times > 1] == []
        assert len(tasks) == self.submitted
        self.check_epochs(*queues)
        counters = self.client.hgetall(self.key("counters"))
        for queue in queues or ("q",):
            assert int(counters.get(f"pending:{queue}".encode(), 0)) == 0
            assert int(counters.get(f"submitted:{queue}".encode(), 0)) == 0
        assert self.client.xlen(self.key("ingress")) == 0
        found = verify(self.client, self.store.keys)
        assert found.passed, f"broken promises: {found.violations[:10]}"

    def check_epochs(self, *queues: str) -> None:
        epochs = [epoch for _, epoch, _ in self.dispatched(*queues)]
        assert epochs == sorted(epochs), "an epoch went backwards"

    def contents(self) -> dict[bytes, bytes | None]:
        """The value of every key that a leader's write could touch."""
        apart = {self.key(word).encode() for word in ("leader", "leadership", "epoch", "standbys")}
        return {
            key: self.client.dump(key)
            for key in self.client.scan_iter(match=f"{self.store.keys.prefix}*", count=1000)
            if key not in apart
        }
