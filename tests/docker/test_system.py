"""``docker compose up -d --wait``: the whole system, watched, loaded and scaled."""

from __future__ import annotations

import re

import pytest

from tests.docker.engine import IMAGE, System, docker
from tests.waiting import wait_until

#: Seconds until everything is healthy, once the images are there.
HEALTHY = 60


def test_all_are_healthy_within_a_minute(system: System) -> None:
    assert system.seconds < HEALTHY
    for name, count in {
        "redis": 1,
        "scheduler": 2,
        "worker": 2,
        "flower": 1,
        "prometheus": 1,
    }.items():
        states = [each["State"]["Health"]["Status"] for each in system.containers(name)]
        assert states == ["healthy"] * count, name


@pytest.mark.parametrize("name", ["scheduler", "worker", "flower"])
def test_a_part_may_do_little(system: System, name: str) -> None:
    for each in system.containers(name):
        assert each["Config"]["User"] == "10001:10001"
        assert each["HostConfig"]["ReadonlyRootfs"] is True
        assert each["HostConfig"]["CapDrop"] == ["ALL"]


def test_the_image_by_itself_is_a_healthy_scheduler(system: System) -> None:
    """Seen to fail: without a port in its command, where the image's own check asks in vain."""
    words = ["--network", f"{system.project}_default", "-e", "TQ_URL=redis://redis:6379/0"]
    started = docker("run", "-d", *words, "-e", "TQ_NAMESPACE=alone", IMAGE).strip()
    state = ("inspect", "-f", "{{.State.Health.Status}}", started)
    try:
        wait_until(lambda: docker(*state).strip() == "healthy", "it is healthy", 60, 0.5)
    finally:
        docker("rm", "-f", started)


def scraped(system: System, job: str) -> int:
    """Return how many processes of a job Prometheus reaches."""
    found = system.query(f'count(up{{job="{job}"}} == 1)')
    return int(found[0]["value"][1]) if found else 0


@pytest.mark.parametrize("job", ["tq-scheduler", "tq-worker"])
def test_both_of_a_kind_are_scraped(system: System, job: str) -> None:
    wait_until(lambda: scraped(system, job) == 2, f"two of {job} are scraped", 60, 0.5)


def test_exactly_one_leads(system: System) -> None:
    def leaders() -> list[str]:
        return [each["value"][1] for each in system.query("sum(tq_scheduler_is_leader)")]

    wait_until(lambda: leaders() == ["1"], "one leads", 60, 0.5)
    assert system.leader()


def test_the_rules_are_evaluated(system: System) -> None:
    def states() -> set[str]:
        answer = system.prometheus("rules")
        return {rule["health"] for group in answer["groups"] for rule in group["rules"]}

    wait_until(lambda: states() == {"ok"}, "every rule was evaluated without an error", 60, 0.5)


def test_flower_shows_the_scheduler_behind_its_login(system: System) -> None:
    page = f"http://127.0.0.1:{system.ports['FLOWER']}"
    assert "Scheduler" in system.fetch(f"{page}/scheduler", login="admin:admin")
    with pytest.raises(OSError, match="401"):
        system.fetch(f"{page}/scheduler")


def test_the_producer_prints_how_long_each_tenant_waited(system: System) -> None:
    words = ("multi_tenant", "--window", "5s", "--seed", "11", "--wait")
    said = system.compose("run", "--rm", "-T", "producer", *words, timeout=300)
    assert re.search(r"^WAIT OF +TASKS +P50 S +P95 S +MAX S$", said, re.MULTILINE)
    assert len(re.findall(r"^(?:all|big|small-\d) +\d+ ", said, re.MULTILINE)) == 6
    again = system.run("run", "--rm", "-T", "producer", *words)
    assert again.returncode == 2
    assert "choose another --seed" in again.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "part, words, said",
    [
        ("scheduler", ["tq", "scheduler"], "9101 is taken"),
        ("worker", ["celery", "--app=tq_celery.produce.app", "worker", "-P", "solo"], "9102 is"),
        ("flower", ["tq", "--app=tq_celery.produce.app", "flower", "--port=5555"], "port: 5555"),
    ],
)
def test_a_taken_port_is_said_in_words(
    system: System, part: str, words: list[str], said: str
) -> None:
    done = system.run("exec", "-T", part, *words)
    assert done.returncode
    assert said in done.stderr.strip().splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_more_workers_are_found(system: System) -> None:
    system.up("--scale", "worker=6", "worker")
    wait_until(lambda: scraped(system, "tq-worker") == 6, "six workers are scraped", 60, 0.5)
    assert len(system.ask("status")["workers"]) >= 6
    system.produce(13, "5s")
    system.up("--scale", "worker=2", "worker")


def test_a_warm_stop_is_clean(system: System) -> None:
    ids = [*system.ids("scheduler"), *system.ids("worker")]
    system.compose("stop", "--timeout", "30", "worker", "scheduler")
    codes = {docker("inspect", "-f", "{{.State.ExitCode}}", each).strip() for each in ids}
    assert codes == {"0"}
    system.up("scheduler", "worker")
