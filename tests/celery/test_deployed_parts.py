"""What the containers of ``docker-compose.yml`` run, as processes here, on a server of the tests.

The commands, variables and health checks are those of the file; ports are free ones of this
machine, and the load is shorter.

Seen to fail: with another port in a health check than the part listens on.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers import ValkeyServer
from tests.unit.deploy.compose import services, words
from tests.unit.deploy.queries import DEPLOY
from tests.waiting import wait_until
from tq_celery.embedded import free_port

pytestmark = pytest.mark.slow

SERVICES = services("docker-compose.yml")
BIN = Path(sys.executable).parent

#: The ports of the file, by part.
PORTS = {"scheduler": "9101", "worker": "9102", "flower": "5555"}


class Part:
    """One container's process."""

    def __init__(self, name: str, server: ValkeyServer, namespace: str, folder: Path) -> None:
        self.name = name
        self.service = SERVICES[name]
        self.port = str(free_port())
        self.log = folder / f"{name}-{self.port}.log"
        program, *arguments = map(self._here, words(self.service))
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [str(BIN / program), *arguments],
                env=self.environment(server, namespace),
                cwd=folder,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def environment(self, server: ValkeyServer, namespace: str) -> dict[str, str]:
        """Return the part's variables, leading to the test's server."""
        own = {name: self._here(value) for name, value in self.service["environment"].items()}
        own |= {"TQ_URL": server.url, "TQ_NAMESPACE": namespace}
        own["CELERY_BROKER_URL"] = f"redis://127.0.0.1:{server.port}/1"
        return {**os.environ, **own, "C_FORCE_ROOT": "1"}

    def _here(self, word: str) -> str:
        return word.replace(PORTS.get(self.name, "none"), self.port).replace("0.0.0.0", "127.0.0.1")

    def healthy(self) -> bool:
        """Ask as the container's health check does."""
        assert self.process.poll() is None, self.log.read_text()
        kind, _, _, url = self.service["healthcheck"]["test"]
        assert kind == "CMD"
        probe = [sys.executable, str(DEPLOY / "docker" / "probe.py"), self._here(url)]
        return subprocess.run(probe, capture_output=True).returncode == 0

    def stop(self) -> None:
        """Stop it as the engine does: SIGTERM, and time until it has ended by itself."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


@pytest.fixture
def parts(server: ValkeyServer, namespace: str, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Two schedulers, two workers and Flower, all healthy."""
    started = [
        Part(name, server, namespace, tmp_path)
        for name in ("scheduler", "scheduler", "worker", "worker", "flower")
    ]
    try:
        for part in started:
            wait_until(part.healthy, f"{part.name} is healthy", timeout=60, interval=0.2)
        yield {"all": started, "server": server, "namespace": namespace, "folder": tmp_path}
    finally:
        for part in started:
            if part.process.poll() is None:
                part.process.kill()
            part.process.wait()


def test_all_parts_are_healthy_serve_a_load_and_stop(
    parts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = SERVICES["producer"]["command"]
    monkeypatch.setitem(
        SERVICES["producer"], "command", ["1s" if word == "30s" else word for word in command]
    )
    producer = Part("producer", parts["server"], parts["namespace"], parts["folder"])
    assert producer.process.wait(60) == 0, producer.log.read_text()
    said = producer.log.read_text()
    assert "tenant" in said
    assert "note:" not in said, "a scheduler leads and workers serve"

    first = parts["all"][0]
    first.process.kill()
    first.process.wait()
    rest = parts["all"][1:]
    for part in rest:
        wait_until(part.healthy, f"{part.name} goes on without the first scheduler")
    for part in rest:
        part.stop()
        assert part.process.returncode == 0, part.log.read_text()
