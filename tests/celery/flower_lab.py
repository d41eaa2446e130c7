"""A Flower with the Scheduler page, as a process, and what a browser and a program ask of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.servers import ValkeyServer
from tests.waiting import wait_until
from tq_celery.embedded import free_port

ROOT = Path(__file__).resolve().parents[2]

APPLICATION = """\
import os
from celery import Celery
from tq_celery import TQ
app = Celery("seen", broker=os.environ["FLOWER_LAB_BROKER"])
TQ(app)
"""


class Answer(NamedTuple):
    """What Flower answered."""

    status: int
    text: str
    headers: Any

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class FlowerLab:
    """``ask`` talks HTTP to the process, as whoever the headers say."""

    def __init__(self, base: str, log: Path, process: subprocess.Popen[bytes]) -> None:
        self.base, self.log, self.process = base, log, process

    def ask(
        self, path: str, form: dict[str, str] | None = None, headers: dict[str, str] | None = None
    ) -> Answer:
        body = None if form is None else urllib.parse.urlencode(form).encode()
        request = urllib.request.Request(self.base + path, data=body, headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=20) as reply:
                return Answer(reply.status, reply.read().decode(), reply.headers)
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.read().decode(), error.headers)

    def is_up(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            return self.ask("/healthcheck").status == 200
        except OSError:
            return False


@contextmanager
def flower_lab(
    folder: Path, server: ValkeyServer, namespace: str, *options: str, broker: str = "memory://",
    prefix: str = "", **environ: str,
) -> Iterator[FlowerLab]:  # fmt: skip
    """Run ``tq flower`` for a namespace; stops it at the end and looks for errors in its log."""
    (folder / "application.py").write_text(APPLICATION)
    port, log = free_port(), folder / "flower.log"
    command = [sys.executable, "-m", "tq_celery.cli", "flower", "-A", "application"]
    command += [f"--port={port}", "--address=127.0.0.1", *options]
    variables = {
        **os.environ,
        "TQ_URL": server.url,
        "TQ_NAMESPACE": namespace,
        "FLOWER_LAB_BROKER": broker,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}",
        **environ,
    }
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=variables, stdout=output, stderr=subprocess.STDOUT
        )
    lab = FlowerLab(f"http://127.0.0.1:{port}{prefix}", log, process)
    try:
        wait_until(lab.is_up, "Flower answers", interval=0.1)
        yield lab
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0, log.read_text()
        assert "Traceback" not in log.read_text(), log.read_text()
    finally:
        process.kill()
        process.wait()
