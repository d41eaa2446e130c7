"""A flood as the Scheduler page shows it: schedulers, a worker, Flower and senders.

One tenant has sent far more than the worker can do, others send a task now and then, and a task is
lost until it is a dead letter.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.celery.flower_lab import ROOT, FlowerLab, flower_lab
from tests.celery.shop import BROKER, FOLDER, build
from tests.servers import ValkeyServer
from tests.waiting import wait_until

NAMESPACE = "shop"
WORKER = "worker@shop"
#: Who floods, and who sends a task now and then.
LOUD, QUIET = "acme", ("globex", "hooli", "initech")
#: Seconds that each task takes, and between two of the quiet ones.
TAKES, EVERY = 0.05, 0.25


class Flood:
    """Sends with ``app``; ``flower`` is the process that the page is asked of."""

    def __init__(self, folder: Path, server: ValkeyServer) -> None:
        self.folder, self.server = folder, server
        self.environ = {
            BROKER: f"redis://127.0.0.1:{server.port}/1",
            FOLDER: str(folder),
            "TQ_URL": server.url,
            "TQ_NAMESPACE": NAMESPACE,
        }
        self.app = build(self.environ, url=server.url, namespace=NAMESPACE)
        self.flower: FlowerLab
        self._stopped = threading.Event()
        self._sender = threading.Thread(target=self._send_now_and_then, daemon=True)

    @contextmanager
    def process(self, name: str, *command: str) -> Iterator[None]:
        """Run a program of the system during the block."""
        environ = {**os.environ, **self.environ, "PYTHONPATH": str(ROOT), "C_FORCE_ROOT": "1"}
        with (self.folder / f"{name}.log").open("w") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", *command], cwd=ROOT, env=environ, stdout=output,
                stderr=subprocess.STDOUT,
            )  # fmt: skip
        try:
            yield
        finally:
            process.kill()
            process.wait()

    def seen(self) -> dict[str, Any]:
        """Return what the page is shown from."""
        found: dict[str, Any] = json.loads(self.flower.ask("/scheduler/data").text)
        return found

    def begin(self, tasks: int) -> None:
        """Lose an order, send the flood, and begin to send for the others."""
        self.app.tasks["shop.ship"].delay(QUIET[-1], 1)
        wait_until(lambda: self.seen()["dead"], "the order is a dead letter", interval=0.1)
        resize = self.app.tasks["shop.resize"]
        self.app.tq.submit_many(resize.s(LOUD, TAKES) for _ in range(tasks))
        self._sender.start()

    def mend(self) -> None:
        """Let an order that comes again be shipped."""
        (self.folder / "mended").touch()

    def shipped(self) -> bool:
        """Tell whether the order was shipped."""
        return (self.folder / "shipped-1").exists()

    def close(self) -> None:
        self._stopped.set()
        if self._sender.is_alive():
            self._sender.join()
        self.app.tq.producers.close()
        self.app.close()

    def _send_now_and_then(self) -> None:
        while not self._stopped.wait(EVERY):
            for tenant in QUIET:
                self.app.tasks["shop.resize"].delay(tenant, TAKES)


@contextmanager
def flood(folder: Path, tasks: int, *options: str) -> Iterator[Flood]:
    """Start all of it; ``options`` are Flower's. Ends it at the end of the block."""
    with ExitStack() as stack:
        server = stack.enter_context(ValkeyServer())
        running = Flood(folder, server)
        stack.callback(running.close)
        for number in (1, 2):
            stack.enter_context(
                running.process(f"scheduler-{number}", "tq_celery.cli", "scheduler")
            )
        stack.enter_context(
            running.process(
                "worker", "celery", "-A", "tests.celery.shop_main", "worker", "-P", "threads",
                "-c", "4", "-l", "info", "-n", WORKER,
            )
        )  # fmt: skip
        running.flower = stack.enter_context(
            flower_lab(
                folder, server, NAMESPACE, *options, broker=running.environ[BROKER],
                FLOWER_UNAUTHENTICATED_API="true",
            )
        )  # fmt: skip
        wait_until(lambda: running.seen()["workers"], "the worker announces itself", interval=0.1)
        running.begin(tasks)
        yield running
