"""``tq scheduler`` as a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

import pytest

from tests.unit.cli.conftest import Command, Space
from tq_celery.cli.scheduler import mismatch
from tq_celery.settings import Settings


@pytest.fixture
def start(space: Space) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start scheduler processes that are gone at the end of the test."""
    started: list[subprocess.Popen[str]] = []

    def run(*args: str, **env: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "tq_celery.cli", "scheduler", *args],
            env={
                **os.environ,
                "TQ_URL": space.server.url,
                "TQ_NAMESPACE": space.settings.namespace,
                **env,
            },
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()


def stop(process: subprocess.Popen[str]) -> list[str]:
    """Stop a scheduler cleanly; returns its log."""
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=30)
    assert process.returncode == 0, log
    return log.splitlines()


def _now(space: Space) -> int:
    """Return the server's clock in ms."""
    seconds, micros = space.client.time()
    return int(seconds) * 1000 + int(micros) // 1000


def leader(ask) -> str | None:
    return ask("status")["leader"]["owner"]


def test_it_leads_admits_and_releases_the_lease(space: Space, start, ask, wait_until) -> None:
    space.submit(3)
    process = start("--policy", "fifo", "--ageing", "none", TQ_AGEING="30s")
    wait_until(lambda: ask("status")["queues"][0]["pending"] == 3, "three tasks are pending")
    assert str(process.pid) in (leader(ask) or "")
    shown = ask("policy", "show")
    assert (shown["policy"], shown["ageing"]) == ("fifo", None)
    log = stop(process)
    assert not [line for line in log if "WARNING" in line]
    assert leader(ask) is None


def test_the_stored_policy_wins_with_one_warning(space: Space, start, ask, wait_until) -> None:
    space.store.seed(Settings(policy="edf", ageing=60.0))
    process = start("--policy", "fifo", "--order-within", "priority", "--ageing", "30s")
    wait_until(lambda: leader(ask), "a scheduler leads")
    warnings = [line for line in stop(process) if "WARNING" in line]
    assert len(warnings) == 1
    assert 'policy="edf (not fifo)" order_within="arrival (not priority)"' in warnings[0]
    assert 'ageing="60.0 (not 30.0)"' in warnings[0]
    assert ask("policy", "show")["policy"] == "edf"


def test_json_log_variables_and_file(space: Space, start, ask, wait_until, tmp_path) -> None:
    file = tmp_path / "tq.toml"
    file.write_text('policy = "priority"\norder_within = "arrival"\n')
    given = ("--log-format", "json", "--config", str(file))
    process = start(*given, TQ_LEADER_TTL="1s", TQ_LEASE="12")
    wait_until(lambda: leader(ask), "a scheduler leads")
    assert ask("status")["leader"]["remaining"] <= 1_000
    lines = [json.loads(line) for line in stop(process)]
    told = {line["message"]: line for line in lines}
    assert set(told["scheduler started"]) == {
        "at", "level", "logger", "message", "owner", "namespace",
    }  # fmt: skip
    assert told["leading"]["epoch"] == 1
    assert ask("policy", "show")["policy"] == "priority"


def test_it_answers_scrapes_or_says_why_it_cannot(space: Space, start, wait_until) -> None:
    """A port that is taken is one line that names the setting, before it runs for the lease."""
    first = start("--metrics-port", "auto")
    line = ""
    while "metrics are served" not in line:
        line = first.stderr.readline()
        assert line, "it ended without serving"
    port = int(line.rpartition("port=")[2])

    def ready() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as reply:
                return reply.read() == b"ready: leading, epoch 1\n"
        except urllib.error.HTTPError:  # 503: no answer of the server yet
            return False

    wait_until(ready, "it leads and says so")
    second = start(TQ_METRICS_PORT=str(port))
    _, said = second.communicate(timeout=30)
    assert second.returncode == 2
    assert said.startswith(
        f"tq: tq_metrics_port: {port} is not allowed; expected a port that is free"
    )
    assert said.count("\n") == 1
    stop(first)


def test_weights_act_on_a_running_scheduler(
    space: Space, start, tq: Command, ask, wait_until
) -> None:
    """A weight raised from 0.01 to 100 puts the tenant's backlog first at once."""
    space.submit(1, tenant=b"gate")
    space.submit(20, tenant=b"flood")
    space.submit(20, tenant=b"quiet")
    for tenant, weight in (("flood", "1"), ("quiet", "0.01")):
        assert tq("tenants", "weight", tenant, weight).exit_code == 0
    start("--policy", "wfq")
    wait_until(lambda: ask("status")["queues"][0]["pending"] == 41, "all tasks are pending")
    assert tq("tenants", "weight", "quiet", "100").exit_code == 0
    space.serve(slots=12)
    wait_until(lambda: ask("queues", "list")["queues"][0]["dispatched"] == 12, "slots are used")
    running = {t["tenant"]: t["running"] for t in ask("tenants", "list")["tenants"]}
    assert running["quiet"] >= 10
    assert running["flood"] <= 1


def test_ageing_acts_on_a_running_scheduler(
    space: Space, start, tq: Command, ask, wait_until
) -> None:
    """A task that waited longer than 255 levels are worth goes before the most urgent one.

    Fails when the leader ranks with the policy's name alone (celery/kombu #166).
    """
    start("--policy", "priority")
    space.submit(1, tenant=b"low", priority=0)
    came, _ = space.client.xinfo_stream(space.key("ingress"))["last-generated-id"].split(b"-")
    wait_until(lambda: _now(space) > int(came) + 300, "the low task is 300 ms old")
    space.submit(1, tenant=b"urgent", priority=255)
    wait_until(lambda: ask("queues", "list")["queues"][0]["pending"] == 2, "both are pending")
    assert tq("policy", "set", "priority", "--ageing", "1ms", "--wait", "10s").exit_code == 0
    space.serve(slots=1)
    wait_until(lambda: ask("queues", "list")["queues"][0]["dispatched"] == 1, "one is dispatched")
    running = {t["tenant"]: t["running"] for t in ask("tenants", "list")["tenants"]}
    assert running == {"low": 1, "urgent": 0}


def test_a_paused_tenant_waits_and_goes_on_when_resumed(
    space: Space, start, tq: Command, ask, wait_until
) -> None:
    space.submit(3, tenant=b"held")
    assert tq("tenants", "pause", "held").exit_code == 0
    space.submit(1, tenant=b"free")
    space.serve(slots=8)
    start()
    queue = lambda: ask("queues", "list")["queues"][0]  # noqa: E731
    wait_until(lambda: queue()["dispatched"] == 1, "the free tenant's task is dispatched")
    wait_until(lambda: queue()["gated"] == 1, "the paused tenant is held back")
    assert queue()["pending"] == 3
    assert tq("tenants", "resume", "held").exit_code == 0
    wait_until(lambda: queue()["dispatched"] == 4, "all are dispatched")


def test_mismatch_names_what_the_namespace_keeps() -> None:
    stored = {"policy": "wfq", "order_within": "arrival"}
    assert mismatch(Settings(), stored) == {}
    assert mismatch(Settings(max_running=3), {**stored, "max_running": "3"}) == {}
    assert mismatch(Settings(ageing=30), {**stored, "ageing": "30.0"}) == {}
    kept = mismatch(Settings(policy="fifo", ageing=30), {**stored, "ageing": ""})
    assert kept == {"policy": "wfq (not fifo)", "ageing": "none (not 30.0)"}


@pytest.mark.slow
def test_kill_9_in_the_middle_of_a_switch_loses_nothing(
    space: Space, start, tq: Command, ask, wait_until
) -> None:
    """Schedulers are killed while they rank anew; the next one goes on where they stopped."""
    tenants, each = 400, 25
    for tenant in range(tenants):
        space.submit(each, tenant=b"t%03d" % tenant)
    total = tenants * each
    ttl = {"TQ_LEADER_TTL": "0.3s", "TQ_BATCH": "20"}
    process = start(**ttl)
    wait_until(lambda: ask("status")["submitted"] == 0, "all tasks are admitted", timeout=60)
    in_the_middle = 0
    for name in ("fifo", "priority", "wfq", "edf", "wfq"):
        assert tq("policy", "set", name).exit_code == 0
        for _ in range(3):
            before = ask("policy", "show")["unranked"]
            wait_until(
                lambda before=before: ask("policy", "show")["unranked"] < max(before, 1),
                "ranking goes on",
            )
            process.kill()
            process.communicate()
            left = ask("policy", "show")["unranked"]
            in_the_middle += 0 < left < tenants
            queue = ask("queues", "list")["queues"][0]
            assert queue["pending"] == total
            assert (
                sum(sum(t["pending"].values()) for t in ask("tenants", "list")["tenants"]) == total
            )
            process = start(**ttl)
        wait_until(lambda: not ask("policy", "show")["unranked"], "all are ranked")
        assert ask("policy", "show")["policy"] == name
    assert in_the_middle >= 3, "no kill hit a switch in the middle"
    space.serve(slots=total)
    wait_until(
        lambda: ask("queues", "list")["queues"][0]["dispatched"] == total,
        "every task is dispatched",
        timeout=60,
    )
    queue = ask("queues", "list")["queues"][0]
    assert (queue["pending"], queue["missing"], queue["unranked"]) == (0, 0, 0)
    stop(process)
