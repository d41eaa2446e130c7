"""What the pages of this folder stand on: a server, a scheduler and a worker, once per page.

A page is a module that reads like a project: it makes its own ``app`` and ``tq`` at the top and
declares tasks. The fixture fills in the addresses, which a project has in its configuration, and
starts a scheduler and Celery's own worker beside it, in threads of this process. The worker has one
slot, so tasks run one after the other and their order can be told.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from celery import _state
from celery.contrib.testing.worker import start_worker
from click.testing import CliRunner

from tests.servers import ValkeyServer
from tests.waiting import wait_until
from tq_celery.cli import main
from tq_celery.scheduler import Scheduler
from tq_celery.store.keys import Keys
from tq_celery.store.wipe import wipe


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Celery's result backend uses a redis-py method that newer versions deprecate."""
    for item in items:
        if "fundamentals" in item.path.parts:
            item.add_marker(pytest.mark.filterwarnings("ignore:Call to deprecated"))


@pytest.fixture(scope="module", autouse=True)
def everything_runs(request: pytest.FixtureRequest, server: ValkeyServer) -> Iterator[None]:
    """Start a scheduler and a worker for the page's ``app``; end them after its last test."""
    app = getattr(request.module, "app", None)
    if app is None:
        yield
        return
    namespace = f"shop{uuid.uuid4().hex[:8]}"
    base = f"redis://127.0.0.1:{server.port}"
    app.conf.update(
        broker_url=f"{base}/14",
        result_backend=f"{base}/15",
        worker_hijack_root_logger=False,
        tq_url=f"{base}/0",
        tq_namespace=namespace,
    )
    before = _state.default_app, _state._tls.current_app
    scheduler = Scheduler(app.tq.settings)
    scheduler.start()
    try:
        with start_worker(app, pool="solo", perform_ping_check=False, loglevel="warning"):
            with server.client() as client:
                # a page may begin with a queue that is known by its worker alone
                known = Keys(namespace).name("workers")
                wait_until(lambda: client.exists(known), "the worker announces itself")
            yield
    finally:
        scheduler.stop()
        scheduler.join()
        app.tq.producers.close()
        app.close()
        _state.default_app, _state._tls.current_app = before
        with server.client() as client:
            wipe(client, Keys(namespace))
            for database in (14, 15):
                client.execute_command("SELECT", database)
                client.flushdb()


@pytest.fixture
def operate(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Run ``tq`` as an operator would: ``operate("tenants", "pause", "acme")``.

    Returns what it printed; with ``--json`` the document.
    """
    settings = request.module.app.tq.settings
    where = ["--url", settings.url, "--namespace", settings.namespace]

    def run(*words: str) -> Any:
        done = CliRunner().invoke(main, [*where, *words])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout) if "--json" in words else done.stdout

    return run


@pytest.fixture
def queue_paused(operate: Callable[..., Any]) -> Callable[[], AbstractContextManager[None]]:
    """Hold the queue while a test submits: the scheduler then chooses among all of it.

    That is what it does in a system that is never idle, without the accidents of who came first.
    """

    def queue() -> Any:
        return operate("queues", "list", "--json")["queues"][0]

    @contextmanager
    def paused() -> Iterator[None]:
        operate("queues", "pause", "celery")
        try:
            yield
            wait_until(lambda: not queue()["submitted"], "all of it is ranked")
        finally:
            operate("queues", "resume", "celery")

    return paused


@pytest.fixture
def totals(operate: Callable[..., Any]) -> Callable[[], dict[str, int]]:
    """Wait until nothing is on its way, and return how many were accepted and how they ended."""
    live = ("submitted", "delayed", "pending", "dispatched", "running")

    def ended() -> Any:
        (queue,) = operate("queues", "list", "--json")["queues"]
        return None if any(queue[word] for word in live) else queue["totals"]

    return lambda: {
        word: count for word, count in wait_until(ended, "all is settled").items() if count
    }


@pytest.fixture
def result_lines(
    request: pytest.FixtureRequest, server: ValkeyServer
) -> Callable[[], list[dict[str, str]]]:
    """Read the results stream, as a program that makes bills or graphs would."""
    stream = f"tq:{{{request.module.app.tq.settings.namespace}}}:results"

    def read() -> list[dict[str, str]]:
        with server.client() as client:
            return [
                {name.decode(): value.decode() for name, value in fields.items()}
                for _, fields in client.xrange(stream)
            ]

    return read
