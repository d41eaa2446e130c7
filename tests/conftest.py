"""Fixtures that every part uses: real servers, a namespace per test, waiting, and the closing word.

``server`` is the embedded Valkey; a test that must hold on both servers asks for ``any_server``
and runs twice. A test that stops, kills, flushes or reconfigures its server takes its own from
``make_server``. ``store`` is a RedisStore on ``any_server`` in the test's own namespace.
"""

from __future__ import annotations

import os
import signal
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import pytest
import redis
from celery import _state
from celery.app import builtins as _celerys_own_shared_tasks  # noqa: F401

from tests import leaks
from tests.servers import RabbitServer, RedisServer, Unavailable, ValkeyServer
from tests.waiting import wait_until as _wait_until
from tq_celery.store.keys import Keys
from tq_celery.store.wipe import wipe

#: With this set every test runs, and one that is skipped makes the run fail.
REQUIRE_ALL = os.environ.get("TQ_TEST_REQUIRE_ALL", "") not in ("", "0")

SERVERS = {"valkey": ValkeyServer, "redis": RedisServer}

# The first text that hypothesis draws on a new machine builds its tables for seconds, and a shared
# machine stalls now and then: neither says anything about the code.
hypothesis.settings.register_profile(
    "suite", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("suite")

_left_out_slow = pytest.StashKey[int]()

_shared_tasks = pytest.StashKey[frozenset[Any]]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Remember the tasks that modules share; Celery gives them to every later application."""
    session.stash[_shared_tasks] = frozenset(_state._on_app_finalizers)


@pytest.fixture(autouse=True)
def _no_shared_tasks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the tasks of other tests out of this test's applications."""
    shared = request.session.stash[_shared_tasks]
    monkeypatch.setattr(_state, "_on_app_finalizers", set(shared))


def _session_server(kind: str) -> Iterator[ValkeyServer]:
    try:
        server = SERVERS[kind]()
        server.find()
    except Unavailable as missing:
        pytest.skip(str(missing))
    with server:
        yield server


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[ValkeyServer]:
    """The Valkey that pip installs, shared by the session; tests keep to their namespace."""
    yield from _session_server("valkey")


@pytest.fixture(scope="session")
def redis_server() -> Iterator[ValkeyServer]:
    """Debian's Redis, shared by the session; skipped where it is not installed."""
    yield from _session_server("redis")


@pytest.fixture(scope="session")
def server(valkey_server: ValkeyServer) -> ValkeyServer:
    """The default server."""
    return valkey_server


@pytest.fixture(scope="session", params=["valkey", "redis"])
def any_server(request: pytest.FixtureRequest) -> ValkeyServer:
    """Each supported server in turn."""
    return request.getfixturevalue(f"{request.param}_server")


@pytest.fixture(scope="session")
def rabbit_server() -> Iterator[RabbitServer]:
    """Debian's RabbitMQ, shared by the session; skipped where it is not installed."""
    try:
        rabbit = RabbitServer()
    except Unavailable as missing:
        pytest.skip(str(missing))
    try:
        yield rabbit.start()
    finally:
        rabbit.stop()


@pytest.fixture
def make_server() -> Iterator[Callable[..., ValkeyServer]]:
    """Start servers of the test's own: ``make_server("redis", appendonly=True)``."""
    started: list[ValkeyServer] = []

    def make(kind: str = "valkey", **options) -> ValkeyServer:
        try:
            server = SERVERS[kind](**options)
            server.find()
        except Unavailable as missing:
            pytest.skip(str(missing))
        started.append(server)
        return server.start()

    yield make
    for server in started:
        if server.pid:
            server.resume()
        server.stop()


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace that no other test uses; afterwards its keys are checked (see leak_check)."""
    name = f"t{uuid.uuid4().hex[:12]}"
    yield name
    used = {
        id(value): value
        for value in getattr(request.node, "funcargs", {}).values()
        if isinstance(value, ValkeyServer) and value.pid
    }
    found: list[str] = []
    for server in used.values():
        with server.client() as client:
            found += leaks.leaked(client, name)
            wipe(client, Keys(name))
    checked = request.node.get_closest_marker("leak_check")
    if checked and not request.node.get_closest_marker("may_leak") and found:
        pytest.fail("keys left behind: " + ", ".join(found))


@pytest.fixture
def client(any_server: ValkeyServer) -> Iterator[redis.Redis]:
    """A plain client of ``any_server``, bytes in and out."""
    with any_server.client() as client:
        yield client


@pytest.fixture
def store(any_server: ValkeyServer, namespace: str):
    """A RedisStore on ``any_server`` in the test's own namespace."""
    from tq_celery.settings import Settings
    from tq_celery.store.redis_store import RedisStore

    store = RedisStore.open(Settings(url=any_server.url, namespace=namespace))
    yield store
    close = getattr(store, "close", None)
    if close is not None:
        close()


@pytest.fixture
def wait_until():
    """:func:`tests.waiting.wait_until`."""
    return _wait_until


# --- which tests run, and what the run says at its end -------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the slow tests as well")


def pytest_configure(config: pytest.Config) -> None:
    # A shell ignores SIGINT for what is in its background, and what tests start would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Workers started by tests run as root in containers; settings come from the tests alone.
    os.environ.setdefault("C_FORCE_ROOT", "1")
    for name in [n for n in os.environ if n.startswith("TQ_") and not n.startswith("TQ_TEST_")]:
        del os.environ[name]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    named = any("::" in argument for argument in config.args)
    if REQUIRE_ALL or config.getoption("--slow") or config.option.markexpr or named:
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    config.stash[_left_out_slow] = len(slow)
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if REQUIRE_ALL and reporter is not None and reporter.stats.get("skipped") and not exitstatus:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, exitstatus: int, config: pytest.Config) -> None:
    reasons: dict[str, int] = defaultdict(int)
    for report in terminalreporter.stats.get("skipped", []):
        text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reasons[text.removeprefix("Skipped: ")] += 1
    slow = config.stash.get(_left_out_slow, 0)
    terminalreporter.section("not run")
    for reason, count in sorted(reasons.items()):
        terminalreporter.line(f"skipped {count}: {reason}")
    if slow:
        terminalreporter.line(f"left out {slow}: slow (run them with: make test-all)")
    if not reasons and not slow:
        terminalreporter.line("nothing: every test ran")
    if REQUIRE_ALL and reasons:
        terminalreporter.line("TQ_TEST_REQUIRE_ALL is set: a skipped test fails the run", red=True)
