"""The tutorial, word for word: its files are written, its commands are run, its output is compared.

In ``docs/tutorial.md`` a ``python`` block is a file, named in its first line; an ``sh`` block is
typed line by line into one shell; a ``text`` block is what the commands before it print. Numbers
and names of hosts and processes may differ. ``scheduler`` and ``worker`` commands stay running,
each in a terminal of its own, and starting one again ends the one before. The server is the test's
own.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import wait_until

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def alike(text: str) -> list[str]:
    """Return the lines of an output without what differs from run to run."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    text = re.sub(r"\S+-\d+-[0-9a-f]{8,}|\S+@\S+", "NAME", text)
    text = re.sub(r"\d+(?:[-.,:]\d+)*", "N", text)
    text = re.sub(r"\bN(?:ms|s|m)\b", "AGE", text)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


class Terminals:
    """A shell in the project's folder, and one terminal for each command that stays."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.address = folder, f"127.0.0.1:{port}"
        self.said: dict[str, str] = {}
        self._staying: dict[str, subprocess.Popen[bytes]] = {}
        self._environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TQ_")},
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "C_FORCE_ROOT": "1",
            "PIP_NO_INDEX": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_ROOT_USER_ACTION": "ignore",
        }

    def here(self, text: str) -> str:
        return text.replace("localhost:6379", self.address)

    def write(self, block: str) -> None:
        name = re.match(r"# (\w+\.py)\n", block)
        assert name, "a file's block begins with its name"
        (self.folder / name[1]).write_text(self.here(block))

    def type(self, line: str) -> str:
        """Run one line; returns what it printed, or the name of the terminal it stays in."""
        if line.startswith("export "):
            name, _, value = line.removeprefix("export ").partition("=")
            self._environ[name] = value
            return ""
        for kind in ("scheduler", "worker"):
            if kind in line.split():
                return self.stay(kind, line)
        done = subprocess.run(
            self.here(line), shell=True, cwd=self.folder, env=self._environ,
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def stay(self, kind: str, line: str) -> str:
        self.end(kind)
        with (self.folder / f"{kind}.log").open("wb") as log:
            self._staying[kind] = subprocess.Popen(
                self.here(line).split(), cwd=self.folder, env=self._environ,
                stdout=log, stderr=log,
            )  # fmt: skip
        return ""

    def shown(self, kind: str) -> str:
        assert self._staying[kind].poll() is None, (self.folder / f"{kind}.log").read_text()
        return (self.folder / f"{kind}.log").read_text()

    def wait_for(self, kind: str, block: str) -> None:
        """Wait until the terminal shows the lines of ``block``."""
        wanted = set(alike(block))
        wait_until(lambda: wanted <= set(alike(self.shown(kind))), f"{kind} prints {block}")

    def end(self, kind: str) -> None:
        """Press Ctrl-C and wait for the end."""
        process = self._staying.pop(kind, None)
        if process is not None:
            process.send_signal(signal.SIGINT)
            process.wait(30)

    def close(self) -> None:
        for process in self._staying.values():
            process.kill()
            process.wait()


@pytest.fixture
def terminals(make_server, tmp_path: Path) -> Iterator[Terminals]:
    terminals = Terminals(tmp_path, make_server("valkey").port)
    yield terminals
    terminals.close()


@pytest.mark.slow
def test_every_block_of_the_tutorial_does_what_the_page_says(terminals: Terminals) -> None:
    output, staying = "", ""
    outputs = []
    for kind, block in BLOCK.findall(PAGE.read_text("utf-8")):
        if kind == "python":
            terminals.write(block)
        elif kind == "sh":
            output, staying = "", ""
            for line in block.splitlines():
                output += terminals.type(line)
                staying = next((w for w in ("scheduler", "worker") if w in line.split()), "")
        elif kind == "text" and staying:
            terminals.wait_for(staying, block)
        elif kind == "text":
            assert alike(output) == alike(block), output
            outputs.append(output)
        else:
            pytest.fail(f"a block of an unknown kind: {kind}")

    said = "\n".join(outputs)
    waited = re.search(r"acme waited ([\d.]+) s", said)
    assert waited
    assert float(waited[1]) < 5, "the flood is 15 seconds long"
    share = re.search(r"initech has (\d+)", said)
    assert share
    assert 7 <= int(share[1]) <= 14, "three to one"
