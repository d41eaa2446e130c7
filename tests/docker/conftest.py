"""Tests with containers, for Docker with compose v2: ``make test-docker``; left out otherwise."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.docker.engine import System, build, missing

collect_ignore_glob = [] if os.environ.get("TQ_TEST_DOCKER") else ["test_*.py"]


@pytest.fixture(scope="session")
def images() -> None:
    """The images of the project, built from this tree."""
    why = missing()
    if why:
        pytest.skip(why)
    build()


@pytest.fixture(scope="module")
def system(images: None) -> Iterator[System]:
    """The system of ``docker-compose.yml``, without Grafana."""
    with System("docker-compose.yml") as running:
        yield running


@pytest.fixture(scope="module")
def sentinels(images: None) -> Iterator[System]:
    """The system on three servers with Sentinels, without Grafana."""
    with System("docker-compose.yml", "deploy/docker/compose.ha.yml") as running:
        yield running
