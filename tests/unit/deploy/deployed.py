"""The servers of the compose files as processes here, with their own commands and configuration.

What differs is what has to: addresses become ports of the loopback interface, volumes folders.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import redis

from tests.servers import RedisServer, SentinelServer
from tests.unit.deploy.queries import ROOT
from tests.waiting import wait_until
from tq_celery.embedded import free_port

__all__ = ["Process", "Sentinels"]

#: The primary at the start, in the files of the servers.
PRIMARY = "172.30.77.10 6379"


def _role(name: str, folder: Path, primary: str) -> Path:
    """Put the file of a role into the folder of a server, which may rewrite it; returns it."""
    text = (ROOT / "deploy" / "docker" / "server" / name).read_text("utf-8")
    file = folder / name
    file.write_text(text.replace("dir /data", f"dir {folder}").replace(PRIMARY, primary))
    return file


class Process:
    """A data server: ``Process(command, folder, primary=port)`` starts it."""

    def __init__(self, command: Sequence[str], folder: Path, *, primary: int = 0) -> None:
        assert command[0] == "redis-server"
        program, *arguments = command
        folder.mkdir(exist_ok=True)
        if arguments and arguments[0].endswith(".conf"):
            arguments[0] = str(_role(Path(arguments[0]).name, folder, f"127.0.0.1 {primary}"))
        self.port = free_port()
        self.words = [
            str(RedisServer.find().with_name(program)), *arguments,
            "--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(folder),
            "--logfile", "log", "--repl-diskless-sync-delay", "0",
        ]  # fmt: skip
        self._folder = folder
        self.client = redis.Redis(
            port=self.port, host="127.0.0.1", protocol=2, decode_responses=True, socket_timeout=30
        )
        self.start()

    def start(self) -> None:
        """Start it, again on the same port."""
        with (self._folder / "errors").open("w") as errors:
            self.process = subprocess.Popen(self.words, stdout=errors, stderr=errors)
        wait_until(self._answers, "the server answers")

    def _answers(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"it did not start: {(self._folder / 'errors').read_text()}")
        try:
            return bool(self.client.ping())
        except redis.RedisError:
            return False

    def setting(self, name: str) -> str:
        """Return a setting as the server has it."""
        return str(self.client.config_get(name)[name])

    def replication(self, name: str) -> str:
        """Return a field of INFO replication; empty while the server does not answer."""
        try:
            return str(self.client.info("replication").get(name, ""))
        except redis.RedisError:
            return ""

    def follows(self) -> bool:
        """Return whether it is a replica and has what its primary has."""
        return self.replication("master_link_status") == "up"

    def kill(self) -> None:
        """End it at once, as a machine that fails."""
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.client.close()
        self.kill()


class Sentinels:
    """Three Sentinels with the configuration of the image, watching ``primary``."""

    def __init__(self, folder: Path, primary: int, count: int = 3) -> None:
        self.ports = [free_port() for _ in range(count)]
        self._processes: list[subprocess.Popen[bytes]] = []
        for port in self.ports:
            own = folder / f"sentinel-{port}"
            own.mkdir()
            file = _role("sentinel.conf", own, f"127.0.0.1 {primary}")
            text = file.read_text("utf-8")
            file.write_text(text.replace("port 26379", f"bind 127.0.0.1\nport {port}"))
            self._processes.append(
                subprocess.Popen(
                    [str(SentinelServer.find()), str(file)],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
        wait_until(self._agree, "the Sentinels know each other and both replicas")

    @property
    def url(self) -> str:
        """Where clients look for the primary."""
        return f"sentinel://{','.join(f'127.0.0.1:{port}' for port in self.ports)}/mymaster"

    def _agree(self) -> bool:
        for port in self.ports:
            with redis.Redis(port=port, host="127.0.0.1", protocol=2, socket_timeout=10) as client:
                try:
                    state = client.sentinel_master("mymaster")
                except redis.RedisError:
                    return False
            if (state["num-other-sentinels"], state["num-slaves"]) != (len(self.ports) - 1, 2):
                return False
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
