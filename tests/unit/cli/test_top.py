"""``tq top``: what one picture says, and that it goes on whatever the server does."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console

from tests.servers import ValkeyServer
from tests.unit.cli.conftest import Command, Space
from tests.waiting import wait_until
from tq_celery.cli import top
from tq_celery.cli.top_screen import picture
from tq_celery.states import Outcome
from tq_celery.store.contract import Settlement


def settle(space: Space, ms: float) -> None:
    """Have one task of the namespace run for so long."""
    delivery = space.deliver()
    started = time.time() * 1000
    done = Settlement(delivery.token, Outcome.COMPLETED, bytes(16), started, started + ms)
    space.store.complete("w1", [done])


def test_an_empty_namespace(tq: Command) -> None:
    text = tq("top").stdout
    assert "leader     none: no scheduler leads (start tq scheduler)\n" in text
    assert "policy     not set; the first scheduler sets it\n" in text
    assert "No task was submitted here yet, and no worker serves this namespace." in text


def test_the_whole_picture(space: Space, tq: Command) -> None:
    space.submit(tenant=b"globex")
    settle(space, 250)
    space.submit(12, tenant=b"acme")
    space.submit(2, tenant=b"globex")
    space.store.set_weight(b"acme", 3)
    space.store.set_cap(b"globex", 5)
    space.store.pause_tenant(b"acme")
    space.admit_all()
    space.store.elect("me", 10_000)
    text = tq("top", "--once").stdout
    assert re.search(r"leader     me, epoch \d+, lease \d+\.\ds\n", text)
    assert "policy     wfq, by arrival within a tenant, generation 1\n" in text
    assert "workers    1 with 4 slots, holding 0 tasks\n" in text
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line}
    assert rows["queue"][1:4] == ["submitted", "delayed", "pending"]
    assert rows["work"][3] == "12"
    assert rows["acme"][1:5] == ["(paused)", "3", "12", "0"]
    assert rows["globex"][1:5] == ["1", "0", "2/5", "100%"]
    assert max(map(len, text.splitlines())) <= 80


def test_as_json(space: Space, ask) -> None:
    space.submit(3, tenant=b"acme")
    space.submit(1, tenant=b"globex")
    space.admit_all()
    found = ask("top", "--once")
    assert [each["tenant"] for each in found["tenants"]] == ["acme", "globex"]
    assert found["tenants"][0]["waiting"] == 3
    assert found["leader"]["owner"] is None
    assert ask("top", "--sort", "tenant") is not None
    space.submit(5, tenant=b"globex")
    space.admit_all()
    assert [each["tenant"] for each in ask("top")["tenants"]] == ["globex", "acme"]
    assert [e["tenant"] for e in ask("top", "--sort", "tenant")["tenants"]] == ["acme", "globex"]


def test_json_needs_no_rich_and_text_says_what_is_missing(ask, refused, monkeypatch) -> None:
    monkeypatch.setattr(top, "find_spec", lambda name: None)
    assert ask("top")["tenants"] == []
    assert refused("top") == "tq: top needs 'rich': pip install 'tq-celery[top]'"


def test_looks_are_not_too_frequent(refused) -> None:
    assert refused("top", "--every", "1ms") == "tq: --every 0.001s: at least 0.2s"


def drawn(seen: dict[str, Any], tenants: int, queues: int) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=80).print(picture(seen, tenants, queues))
    return file.getvalue().splitlines()


def test_eighty_columns_hold_long_names_and_great_numbers(space: Space, ask) -> None:
    space.submit(2, tenant=b"a tenant with quite a long name, as they come", queue="q" * 60)
    space.submit(1, tenant=b"[red]markup", queue="[bold]")
    space.admit_all()
    seen = ask("top")
    for each in seen["queues"]:
        each |= dict.fromkeys(("submitted", "pending", "running"), 1_234_567)
    for each in seen["tenants"]:
        each |= {"waiting": 1_234_567, "share": 1.0, "fair": 0.03, "p95": 86_400_000.0}
    lines = drawn(seen, 10, 10)
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert "a tenant" in text
    assert "1234567" in text
    assert "[red]markup" in text
    assert "100%" in text
    assert "24h00m" in text


@pytest.mark.parametrize(
    ("changes", "marked"),
    [({}, True), ({"oldest": 40}, False), ({"paused": True}, False), ({"share": 0.3}, False)],
)
def test_who_starves_is_marked(space: Space, ask, changes: dict[str, Any], marked: bool) -> None:
    """Seen to fail without the age: a tenant whose one task had just come was marked."""
    space.submit(1, tenant=b"acme")
    space.admit_all()
    seen = ask("top")
    seen["tenants"][0] |= {"share": 0.1, "fair": 0.4, "oldest": 1_500, **changes}
    file = io.StringIO()
    console = Console(file=file, width=80, force_terminal=True, color_system="standard")
    console.print(picture(seen, 1, 1))
    assert ("\x1b[33macme" in file.getvalue()) == marked, file.getvalue()


def test_what_does_not_fit_is_counted(space: Space, ask) -> None:
    for number in range(5):
        space.submit(tenant=b"t%d" % number, queue=f"q{number}")
    text = "\n".join(drawn(ask("top"), 2, 3))
    assert "(tenants not shown: 3)" in text
    assert "(queues not shown: 2)" in text


class Terminal:
    """``tq top`` on a terminal of its own."""

    def __init__(self, url: str) -> None:
        self.master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (24, 80))
        command = [sys.executable, "-m", "tq_celery.cli", "top", "--every", "200ms", "--url", url]
        env = {**os.environ, "TERM": "xterm"}
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=env)
        os.close(slave)
        os.set_blocking(self.master, False)
        self.said = ""

    def says(self, words: str, without: str = "") -> None:
        """Wait until it draws the words from now on; then in a picture ``without`` others."""
        self.said = ""

        def look() -> bool:
            with contextlib.suppress(BlockingIOError):
                self.said += os.read(self.master, 65_536).decode(errors="replace")
            *_, frame, _ = ["", *self.said.split("\x1b[H")]
            return words in self.said if not without else words in frame and without not in frame

        wait_until(look, f"it says {words!r}")


@pytest.fixture
def own_server(make_server) -> ValkeyServer:
    return make_server()


@pytest.fixture
def terminal(own_server: ValkeyServer) -> Iterator[Terminal]:
    own = Terminal(own_server.url)
    yield own
    own.process.kill()
    own.process.wait()
    os.close(own.master)


def test_it_goes_on_while_the_server_is_away(own_server: ValkeyServer, terminal: Terminal) -> None:
    """The last picture stays; a signal ends it, and the terminal is as it was."""
    terminal.says("No task was submitted here yet")
    assert not termios.tcgetattr(terminal.master)[3] & termios.ECHO
    own_server.stop()
    terminal.says("the server does not answer (")
    assert "trying again. This is " in terminal.said
    assert "No task was submitted here yet" in terminal.said
    own_server.start()
    terminal.says("none: no scheduler leads", without="trying again")
    terminal.process.send_signal(signal.SIGTERM)
    terminal.says("\x1b[?1049l")
    assert terminal.process.wait(30) == 128 + signal.SIGTERM
    assert termios.tcgetattr(terminal.master)[3] & termios.ECHO
    assert "Traceback" not in terminal.said


def test_a_server_that_never_answered() -> None:
    """What is typed is not shown, and q ends it."""
    own = Terminal("redis://127.0.0.1:1/0")
    try:
        own.says("the server does not answer (")
        os.write(own.master, b"~")
        own.says("trying again")
        assert "~" not in own.said
        os.write(own.master, b"q")
        own.says("\x1b[?1049l")
        assert own.process.wait(30) == 0
        assert "Traceback" not in own.said
    finally:
        own.process.kill()
        own.process.wait()
        os.close(own.master)
