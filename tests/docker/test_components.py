"""Containers that pytest-celery starts: a worker with this package, on Redis and on RabbitMQ.

The scheduler's server is the result backend's Redis, as it may be.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from types import ModuleType
from typing import Any

import pytest
from pytest_celery import (
    CeleryTestContainer,
    CeleryTestSetup,
    CeleryWorkerContainer,
    RabbitMQContainer,
    RedisContainer,
)
from pytest_celery.vendors.worker.defaults import DEFAULT_WORKER_VOLUME
from pytest_docker_tools import container, fxtr

from tests.docker import component_app, component_tasks
from tests.docker.component_tasks import ordinary, slow, square
from tests.docker.engine import IMAGE, OTHERS
from tests.unit.deploy.compose import services
from tests.waiting import wait_until
from tq_celery import TQ
from tq_celery.store.client import connect
from tq_celery.store.inspect import Inspector
from tq_celery.store.keys import Keys
from tq_celery.store.views import QueueView

NAMESPACE = "shop"

#: Seconds for a result, also of a task that waits for a killed worker's lease.
RESULT = 90.0


class Worker(CeleryWorkerContainer):
    """A worker of this package's image, with the application and tasks of this folder."""

    @classmethod
    def command(cls, *args: str, **kwargs: Any) -> list[str]:
        words: list[str] = super().command("--pool=threads", "--concurrency=4", *args)
        return words

    @classmethod
    def app_module(cls) -> ModuleType:
        return component_app

    @classmethod
    def tasks_modules(cls) -> set[ModuleType]:
        return {component_tasks}


class Scheduler(CeleryTestContainer):
    """The scheduler of the same image; it is ready when it leads."""

    @property
    def ready_prompt(self) -> str:
        return "leading: owner="


class Redis(RedisContainer):
    """A Redis that is reached wherever the tests run."""

    @property
    def host_url(self) -> str:
        return reached(self, "6379/tcp")


class RabbitMQ(RabbitMQContainer):
    """A RabbitMQ that is reached wherever the tests run."""

    @property
    def host_url(self) -> str:
        return reached(self, "5672/tcp")


def reached(container: CeleryTestContainer, port: str) -> str:
    """Return an address as it is from here, also where the tests run in a container themselves.

    pytest-celery's own is of localhost, with a port that is published there or not.
    """
    host, number = container.get_addr(port)
    return f"{container.prefix()}{host}:{number}/{container.vhost}"


@pytest.fixture
def tq_image(images: None) -> str:
    return IMAGE


@pytest.fixture
def redis_image(images: None) -> str:
    """The server of the compose file."""
    return str(services("docker-compose.yml")["redis"]["image"])


@pytest.fixture
def rabbitmq_image(images: None) -> str:
    """One that is here also where none can be pulled."""
    return next(image for image in OTHERS if image.startswith("rabbitmq:"))


def redis_container() -> Any:
    """Return the fixture of a Redis that leaves no volume behind."""
    return container(
        image="{redis_image}",
        ports=Redis.ports(),
        network="{default_pytest_celery_network.name}",
        wrapper_class=Redis,
        timeout=120,
        command=Redis.command(),
        tmpfs={"/data": ""},
    )


default_redis_broker = redis_container()
default_redis_backend = redis_container()

default_rabbitmq_broker = container(
    image="{rabbitmq_image}",
    ports=RabbitMQ.ports(),
    network="{default_pytest_celery_network.name}",
    wrapper_class=RabbitMQ,
    timeout=180,
)


@pytest.fixture
def default_worker_container_cls() -> type[Worker]:
    return Worker


@pytest.fixture
def tq_env(default_redis_backend: Redis) -> dict[str, str]:
    return {"TQ_URL": default_redis_backend.url, "TQ_NAMESPACE": NAMESPACE, "TQ_LEASE": "4s"}


@pytest.fixture
def default_worker_env(
    celery_worker_cluster_config: dict[str, Any], tq_env: dict[str, str]
) -> dict[str, str]:
    environ: dict[str, str] = Worker.initial_env(celery_worker_cluster_config, tq_env)
    return environ


default_worker_container = container(
    image="{tq_image}",
    environment=fxtr("default_worker_env"),
    network="{default_pytest_celery_network.name}",
    volumes={"{default_worker_volume.name}": DEFAULT_WORKER_VOLUME},
    wrapper_class=Worker,
    timeout=120,
    command=fxtr("default_worker_command"),
)

scheduler = container(
    image="{tq_image}",
    environment=fxtr("tq_env"),
    network="{default_pytest_celery_network.name}",
    wrapper_class=Scheduler,
    timeout=120,
    command=["tq", "scheduler"],
)


@pytest.fixture
def setup(
    celery_setup: CeleryTestSetup, default_redis_backend: Redis, scheduler: Scheduler
) -> Iterator[CeleryTestSetup]:
    """All of it started, and an application here that sends to it."""
    app = celery_setup.app
    tq = TQ(app, default_redis_backend.host_url, namespace=NAMESPACE)
    app.set_current()  # making the worker's files made another one
    assert celery_setup.ready(control=True)
    yield celery_setup
    app.backend.remove_pending_result = lambda result: result
    app.backend.result_consumer.stop()
    tq.producers.close()
    app.close()


def queue(redis: Redis) -> QueueView:
    """Return what the scheduler knows of the queue."""
    with closing(connect(redis.host_url, timeout=5.0)) as client:
        (found,) = Inspector(client, Keys(NAMESPACE)).overview().queues
    return found


def completed(redis: Redis) -> int:
    """Return how many scheduled tasks have ended well."""
    return queue(redis).totals["completed"]


def test_scheduled_and_ordinary_tasks_run_side_by_side(
    setup: CeleryTestSetup, default_redis_backend: Redis
) -> None:
    both = [(square.delay("acme", n), ordinary.delay(n)) for n in range(20)]
    for number, (scheduled, stock) in enumerate(both):
        assert scheduled.get(timeout=RESULT) == number * number
        assert stock.get(timeout=RESULT) == number + 1
    wait_until(lambda: completed(default_redis_backend) == len(both), "all are settled", 30)


def test_a_killed_worker_loses_nothing(
    setup: CeleryTestSetup, default_redis_backend: Redis
) -> None:
    results = [slow.delay("acme", n) for n in range(12)]
    wait_until(lambda: queue(default_redis_backend).running, "tasks run", 30)
    setup.worker.kill()
    setup.worker.restart()
    assert [each.get(timeout=RESULT) for each in results] == list(range(12))
    wait_until(lambda: completed(default_redis_backend) == len(results), "all are settled", 30)
