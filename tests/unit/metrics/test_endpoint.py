"""The endpoint: three paths, a port that is free or an error that names the setting."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

import pytest

from tq_celery import embedded
from tq_celery.errors import SettingsError
from tq_celery.metrics import endpoint as module
from tq_celery.metrics.endpoint import Endpoint, Verdict
from tq_celery.metrics.samples import Samples

READY = Verdict(True, "ready: standby")


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.fixture
def serve() -> Iterator[Callable[..., Endpoint]]:
    """Start endpoints that are gone at the end of the test."""
    opened: list[Endpoint] = []

    def start(port: int | str = "auto", role: str = "scheduler", **answers) -> Endpoint:
        given = {
            "fill": lambda samples: samples.add("tq_starved", 1),
            "healthy": lambda: Verdict(True, "alive"),
            "ready": lambda: READY,
        }
        endpoint = Endpoint(port, role, **{**given, **answers})
        endpoint.start()
        opened.append(endpoint)
        return endpoint

    yield start
    for endpoint in opened:
        endpoint.stop()


@pytest.fixture
def free_port() -> int:
    return embedded.free_port()


def test_the_three_paths(serve) -> None:
    port = serve().port
    status, body = get(port, "/metrics")
    assert status == 200
    assert body.splitlines()[-1] == "tq_starved 1.0"
    assert get(port, "/healthz") == (200, "alive\n")
    assert get(port, "/readyz?verbose") == (200, "ready: standby\n")
    assert get(port, "/") == (404, "ask for /metrics, /healthz or /readyz\n")


def test_what_is_not_well_is_503_and_says_why(serve) -> None:
    port = serve(ready=lambda: Verdict(False, "not ready: away")).port
    assert get(port, "/readyz") == (503, "not ready: away\n")
    assert get(port, "/healthz")[0] == 200


def test_a_scrape_that_fails_is_an_answer_and_not_the_last(serve) -> None:
    def fail(samples: Samples) -> None:
        raise RuntimeError("no")

    port = serve(fill=fail).port
    assert get(port, "/metrics") == (500, "the scrape failed; the log says why\n")
    assert get(port, "/healthz")[0] == 200


def test_a_port_that_is_taken_names_the_setting(serve, free_port: int) -> None:
    serve(free_port)
    with pytest.raises(SettingsError) as caught:
        serve(free_port)
    assert str(caught.value) == (
        f"tq_metrics_port: {free_port} is not allowed; expected a port that is free "
        f"({free_port} is taken), 'auto' or 'off'; TQ_METRICS_PORT sets it for one process"
    )


def test_auto_takes_the_usual_port_or_another(serve, free_port: int, monkeypatch) -> None:
    monkeypatch.setitem(module.DEFAULT_PORTS, "worker", free_port)
    first, second = serve(role="worker"), serve(role="worker")
    assert first.port == free_port
    assert second.port not in (0, free_port)
    assert get(second.port, "/healthz") == (200, "alive\n")


def test_off_listens_nowhere(serve) -> None:
    assert serve("off").port == 0


def test_a_stopped_endpoint_gives_its_port_back(serve, free_port: int) -> None:
    serve(free_port).stop()
    assert get(serve(free_port).port, "/healthz")[0] == 200


def test_a_fork_keeps_no_hold_on_the_port(serve, free_port: int) -> None:
    """Pool processes outlive a killed worker for a moment, and its successor needs the port.

    Seen to fail without the close in the child.
    """
    endpoint = serve(free_port)
    told, tell = os.pipe()
    child = os.fork()
    if not child:
        os.close(tell)
        os.read(told, 1)
        os._exit(0)
    os.close(told)
    try:
        endpoint.stop()
        assert get(serve(free_port).port, "/healthz")[0] == 200
    finally:
        os.close(tell)
        os.waitpid(child, 0)
