"""The health check of the containers, on a real endpoint.

Seen to fail: with any answer taken for a good one.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from tests.unit.deploy.queries import DEPLOY

PROBE = str(DEPLOY / "docker" / "probe.py")


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/readyz" else 503)
        self.end_headers()
        self.wfile.write(b"stands\nby\n")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def run(*arguments: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, "-I", PROBE, *arguments], capture_output=True, text=True)
    return done.returncode, (done.stdout + done.stderr).strip()


def test_it_passes_when_the_answer_is_200(address: str) -> None:
    assert run(f"{address}/readyz") == (0, "200 stands by")


def test_it_fails_on_another_answer(address: str) -> None:
    assert run(f"{address}/healthz") == (1, "503 stands by")


def test_it_fails_in_one_line_when_nobody_answers() -> None:
    code, line = run("http://127.0.0.1:1/readyz")
    assert code == 1
    assert line.startswith("http://127.0.0.1:1/readyz does not answer: ")
    assert "\n" not in line


def test_it_says_how_it_is_called() -> None:
    assert run() == (2, "usage: probe.py URL")
    assert run("readyz") == (1, "'readyz' is no address; write http://localhost:9101/readyz")
