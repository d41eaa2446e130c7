"""What goes wrong is one line on stderr and exit code 2, never a traceback."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from tests.servers import ValkeyServer
from tests.unit.cli.conftest import Command, Space
from tq_celery.cli import main
from tq_celery.embedded import free_port

EVERY = [
    ("status",),
    ("top",),
    ("explain", "some-id"),
    ("policy", "show"),
    ("policy", "set", "fifo"),
    ("tenants", "list"),
    ("tenants", "weight", "acme", "2"),
    ("queues", "list"),
    ("queues", "pause", "work"),
    ("dlq", "list"),
    ("dlq", "show", "1-1"),
    ("doctor",),
    ("verify",),
    ("scheduler",),
]


def line(*args: str, **env: str) -> str:
    result = CliRunner().invoke(main, list(args), env=env, catch_exceptions=False)
    assert result.exit_code == 2, result.output
    assert result.stderr.count("\n") == 1, result.stderr
    assert result.stdout == ""
    return result.stderr.strip()


@pytest.mark.parametrize("command", EVERY, ids=" ".join)
def test_the_server_is_away(command: tuple[str, ...]) -> None:
    said = line(*command, "--url", f"redis://127.0.0.1:{free_port()}/0")
    assert said.startswith("tq: the server does not answer (")
    assert "refused" in said


@pytest.mark.parametrize("command", EVERY, ids=" ".join)
def test_the_url_is_wrong(command: tuple[str, ...]) -> None:
    assert "did you mean 'redis'?" in line(*command, "--url", "reddis://localhost")


def test_a_password_is_not_repeated() -> None:
    for url in ("http://user:secret@host", "redis://user:se/cret@host/0", "redis://u:secret@h:x"):
        assert "secret" not in line("status", "--url", url)
        assert "cret" not in line("status", "--url", url).replace("secret", "")


def test_the_server_is_still_loading_or_wants_a_password(make_server) -> None:
    server: ValkeyServer = make_server()
    with server.client() as client:
        client.config_set("requirepass", "x")
    assert "the server does not answer" in line("status", "--url", server.url)


def test_a_frozen_server_is_away_too(make_server, monkeypatch) -> None:
    monkeypatch.setattr("tq_celery.cli.session.TIMEOUT", 0.2)
    server: ValkeyServer = make_server()
    server.pause()
    assert "the server does not answer" in line("status", "--url", server.url)


def test_no_server_but_something_else_listens() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        import threading

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65_536):
                    pass

        threading.Thread(target=answer, daemon=True).start()
        said = line("tenants", "list", "--url", f"redis://127.0.0.1:{port}/0")
    assert said.startswith("tq: the server does not answer (")
    assert "what listens there is no Redis or Valkey: " in said


def test_applications_that_cannot_be_loaded(tmp_path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "tq_broken.py").write_text("raise RuntimeError('two\\nlines')\n")
    (tmp_path / "tq_empty.py").write_text("")
    assert line("-A", "tq_nowhere", "status") == (
        "tq: --app tq_nowhere: there is no module named 'tq_nowhere'"
    )
    assert "RuntimeError: two lines" in line("-A", "tq_broken", "status")
    assert "no Celery application found there" in line("-A", "tq_empty", "status")


def test_files_and_settings_that_are_wrong(tmp_path) -> None:
    missing = str(tmp_path / "tq.toml")
    assert "tq.toml" in line("--config", missing, "status")
    (tmp_path / "tq.toml").write_text("leese = 3\n")
    assert "did you mean 'lease'?" in line("--config", missing, "status")
    assert "TQ_LEASE" in line("status", TQ_LEESE="3").upper()
    assert "tq_batch" in line("scheduler", "--batch", "9000")


def test_a_task_without_an_id() -> None:
    assert line("explain", "") == "tq: TASK_ID is empty"


def test_usage_errors_say_where_help_is() -> None:
    assert line("bogus") == "tq: No such command 'bogus' (see 'tq --help')"
    assert "(see 'tq tenants weight --help')" in line("tenants", "weight", "acme")
    assert "No such option" in line("status", "--bogus")
    assert "No such option" in line("--bogus", "status")


def test_a_namespace_of_another_schema(space: Space, refused, tq: Command) -> None:
    space.client.hset(space.key("config"), "schema", "99")
    assert "has schema 99; this version works with" in refused(
        "tenants", "weight", "a", "2", "--new"
    )
    assert "has schema 99" in refused("policy", "set", "fifo")
    assert "has schema 99" in refused("scheduler")


def test_a_namespace_that_another_program_uses(space: Space, refused) -> None:
    space.client.set(space.key("queues"), "not a set")
    assert "WRONGTYPE" in refused("status")


def test_the_process_has_the_exit_code_and_a_clean_stderr() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tq_celery.cli", "status", "--url", "redis://127.0.0.1:1/0"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
