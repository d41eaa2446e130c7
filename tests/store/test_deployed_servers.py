"""A real server takes each command line that the deployment gives one, and does what it means.

Seen to fail: with ``--min-replicas-max-lag`` misspelt, which no server takes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers import RedisServer, Unavailable
from tests.unit.deploy.compose import FILES, services
from tests.unit.deploy.deployed import Process
from tq_celery.embedded import free_port

SENTINELS = services(*FILES["sentinels"])


@pytest.fixture(autouse=True)
def _installed() -> None:
    try:
        RedisServer.find()
    except Unavailable as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("name", ["redis", "replica-1", "replica-2"])
def test_a_data_server(name: str, tmp_path: Path) -> None:
    with Process(SENTINELS[name]["command"], tmp_path / "data", primary=free_port()) as server:
        assert server.setting("appendonly") == "yes"
        assert server.setting("appendfsync") == "everysec"
        assert server.setting("maxmemory-policy") == "noeviction"
        assert server.setting("min-replicas-to-write") == "1"
        assert server.setting("min-replicas-max-lag") == "5"
        assert server.replication("role") == ("master" if name == "redis" else "slave")


def test_the_server_of_the_small_deployment(tmp_path: Path) -> None:
    command = services("docker-compose.yml")["redis"]["command"]
    with Process(command, tmp_path / "data") as server:
        assert server.setting("appendonly") == "yes"
        assert server.setting("maxmemory-policy") == "noeviction"
        assert server.setting("min-replicas-to-write") == "0"


def test_the_broker_keeps_nothing(tmp_path: Path) -> None:
    with Process(SENTINELS["broker"]["command"], tmp_path / "data") as server:
        assert server.setting("save") == ""
        assert server.setting("appendonly") == "no"
