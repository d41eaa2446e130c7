"""The example project: its own commands, a worker, a scheduler, and a flood of one account."""

from __future__ import annotations

import os
import re
import runpy
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.waiting import wait_until
from tq_celery.effective import ambient_tenant

PROJECT = Path(__file__).parents[1] / "django_project"
PAGE = Path(__file__).parents[2] / "docs" / "howto" / "use-with-django.md"
MANY, FEW = 120, 5


class Site:
    """The project on a server of its own; ``manage`` runs a command, ``start`` a process."""

    def __init__(self, port: int, folder: Path) -> None:
        self.folder = folder
        self.environ = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("TQ_", "DJANGO"))},
            "REDIS": f"redis://127.0.0.1:{port}",
            "PROJECT_DATA": str(folder),
            "PYTHONPATH": str(PROJECT.parents[1]),
            "C_FORCE_ROOT": "1",
        }
        self.processes: list[subprocess.Popen[bytes]] = []

    def manage(self, *command: str) -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *command],
            cwd=PROJECT, env=self.environ, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, *command: str) -> Path:
        log = self.folder / f"{command[0]}.log"
        with log.open("wb") as output:
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "celery", "-A", "project", *command],
                    cwd=PROJECT,
                    env=self.environ,
                    stdout=output,
                    stderr=output,
                )
            )
        return log

    def order(self) -> list[str]:
        """Return whose invoices were printed, in order."""
        connection = sqlite3.connect(self.folder / "shop.sqlite3", timeout=20)
        try:
            rows = connection.execute(
                "SELECT account FROM shop_invoice WHERE settled IS NOT NULL ORDER BY settled"
            )
            return [account for (account,) in rows]
        finally:
            connection.close()


@pytest.fixture
def site(make_server: Any, tmp_path: Path) -> Iterator[Site]:
    site = Site(make_server("valkey").port, tmp_path)
    yield site
    for process in site.processes:
        process.terminate()
    for process in site.processes:
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_the_project_runs_and_a_flood_does_not_hold_up_the_others(site: Site) -> None:
    site.manage("migrate", "--run-syncdb", "-v", "0")
    assert "ordered" in site.manage("flood", "--many", str(MANY), "--few", str(FEW))
    assert site.order() == []
    scheduler = site.start("tq", "scheduler")
    worker = site.start("worker", "-c", "1", "-l", "info")

    def done() -> bool:
        assert all(p.poll() is None for p in site.processes), (
            scheduler.read_text() + worker.read_text()
        )
        return len(site.order()) == MANY + FEW

    wait_until(done, "every invoice is printed", 60)
    order = site.order()
    last = max(place for place, account in enumerate(order) if account == "small")
    assert last < MANY / 2, f"small's last invoice was printed at place {last} of {len(order)}"
    # The undecorated task is scheduled by the route in the settings.
    shell = "from shop.tasks import clean; print(clean.delay().get(timeout=20))"
    assert site.manage("shell", "-v", "0", "-c", shell).split()[-1] == str(MANY + FEW)


def test_the_projects_middleware_names_the_tenant_of_a_request() -> None:
    middleware = runpy.run_path(str(PROJECT / "project" / "middleware.py"))["tenant_middleware"]
    seen: list[Any] = []
    view = middleware(lambda request: seen.append(ambient_tenant()))
    for user in (SimpleNamespace(account_id="acme"), SimpleNamespace(account_id=7), object()):
        view(SimpleNamespace(user=user))
    assert seen == [b"acme", b"7", None]
    assert ambient_tenant() is None


def blocks() -> dict[str, str]:
    """Return the page's blocks of Python by the file that their first line names."""
    found = re.findall(
        r"^```python\n# (\S+\.py)\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    return dict(found)


def test_the_page_shows_the_files_of_the_project() -> None:
    """Each block is a file of the project that the test above runs, or a part of one."""
    shown = blocks()
    assert set(shown) == {
        "project/celery.py", "project/settings.py", "project/middleware.py", "shop/tasks.py",
        "shop/management/commands/flood.py",
    }  # fmt: skip
    for name, text in shown.items():
        file = (PROJECT / name).read_text("utf-8")
        for part in text.strip("\n").split("\n...\n"):
            assert part.strip("\n") in file, f"{name}: {part}"
