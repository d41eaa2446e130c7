"""An arm that this machine cannot run is left out and named; with none left there is no result."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bench.harness.errors import BenchError
from bench.harness.rivals import not_run, rivals


class Lab:
    def arm(self, name: str) -> Any:
        if name.startswith("rabbit"):
            raise BenchError("no RabbitMQ server found")
        return SimpleNamespace(name=name)


def test_what_cannot_be_run_is_left_out_with_its_reason(capsys) -> None:
    lab: Any = Lab()
    arms, missing = rivals(lab, ["tq-wfq", "rabbitmq", "redis", "redis"])
    assert [arm.name for arm in arms] == ["tq-wfq", "redis"]
    assert missing == {"rabbitmq": "no RabbitMQ server found"}
    assert not_run(missing) == ["not run: rabbitmq: no RabbitMQ server found"]
    assert "rabbitmq" in capsys.readouterr().err


def test_none_at_all_is_an_error() -> None:
    lab: Any = Lab()
    with pytest.raises(BenchError, match="no RabbitMQ server found"):
        rivals(lab, ["rabbitmq"])
