"""Arms by name: which application, which server, what travels in the environment."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bench.experiments.headtohead.plan import OURS, STOCK
from bench.harness.arms import ARMS, RedisArm, make_arm
from bench.harness.errors import BenchError
from bench.harness.ideal import IDEAL_POLICY
from bench.harness.measure import Calls
from bench.harness.plots.style import COLOURS
from bench.harness.plots.view import ARMS as SHOWN
from bench.harness.servers import RabbitMQServer, RedisServer


class FakeLab:
    """Says which servers were asked for; starts none."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    @property
    def redis(self) -> RedisServer:
        self.asked.append("redis")
        return RedisServer(1, 7001, "redis 7", None)

    @property
    def rabbitmq(self) -> RabbitMQServer:
        self.asked.append("rabbitmq")
        process: Any = None
        return RabbitMQServer(process, 7002, "rabbitmq 3")


@pytest.mark.parametrize("name", ARMS)
def test_each_arm_is_called_what_it_was_asked_for_by_and_needs_one_server(name: str) -> None:
    lab = FakeLab()
    arm = make_arm(name, lab)
    assert arm.name == name
    assert lab.asked == ["rabbitmq" if name.startswith("rabbitmq") else "redis"]
    assert arm.scheduled == name.startswith("tq-")
    # Ours has no prefetch setting; a stock worker holds no more than it runs, unless told to.
    assert arm.prefetch == (None if arm.scheduled else 1)


def test_no_two_arms_run_the_same() -> None:
    made = [make_arm(name, FakeLab()) for name in ARMS]
    assert len({(arm.app, arm.env.get("TQ_POLICY")) for arm in made}) == len(ARMS)


def test_an_unknown_arm_is_one_line_with_what_was_probably_meant() -> None:
    with pytest.raises(BenchError) as caught:
        make_arm("tq-wfg", FakeLab())
    assert caught.value.exit_code == 2
    assert caught.value.message == (
        f"arm: 'tq-wfg' is not one of {', '.join(ARMS)}; did you mean 'tq-wfq'?"
    )


def test_the_tenants_of_queues_travel_in_the_environment() -> None:
    arm = make_arm("tenant-queues", FakeLab(), tenants=["big", "small-1"])
    assert arm.env["BASELINE_TENANTS"] == "big,small-1"
    assert isinstance(arm, RedisArm)
    assert arm.lists == ("celery", "tenant-big", "tenant-small-1")


def test_a_namespace_and_a_policy_reach_every_process_of_ours() -> None:
    env = make_arm("tq-edf", FakeLab(), "bench-cell").env
    assert (env["TQ_NAMESPACE"], env["TQ_POLICY"]) == ("bench-cell", "edf")
    assert env["TQ_URL"] == env["BASELINE_BROKER"]


def test_an_arm_is_known_wherever_arms_are_listed() -> None:
    """Seen to fail: with an arm left out of the colours."""
    assert set(SHOWN) == set(IDEAL_POLICY) == set(COLOURS) == set(ARMS)
    assert len(SHOWN) == len(ARMS)
    assert {*STOCK, *OURS, "tq-none"} == set(ARMS)


def test_commands_of_a_transaction_are_counted_once() -> None:
    """Seen to fail: EXEC has the time of the commands in it, which are counted by themselves."""
    calls = {"lpush": Calls(4, 40.0), "hset": Calls(2, 20.0), "exec": Calls(2, 25.0)}
    server: Any = SimpleNamespace(command_calls=lambda: calls)
    assert RedisArm(server).server_us() == 60.0


def test_prefetch_is_for_stock_workers() -> None:
    assert make_arm("redis", FakeLab(), prefetch=16).prefetch == 16
    assert make_arm("tq-wfq", FakeLab(), prefetch=16).prefetch is None
