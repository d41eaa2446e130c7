"""The Docker engine as the tests use it: this tree's images, and systems started from its files."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import time
import urllib.parse
import urllib.request
from typing import Any, Self

from tests.unit.deploy.compose import services
from tests.unit.deploy.queries import ROOT
from tests.waiting import wait_until
from tq_celery.embedded import free_port

__all__ = ["IMAGE", "OTHERS", "System", "build", "docker", "missing"]

IMAGE = "tq-celery:local"
SERVER = "tq-celery-server:local"

#: Public images, and the folders that build one of the same name where it cannot be pulled.
OTHERS = {
    "prom/prometheus:v3.5.0": "tests/docker/prometheus",
    "rabbitmq:4-alpine": "tests/docker/rabbitmq",
}

#: The engine's own network may not lead to the package index; the machine's does.
BUILD = ("buildx", "build", "--quiet", "--network", "host")


def run(*words: str, timeout: float = 600, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a docker command in the project's folder, with more variables of the environment."""
    return subprocess.run(
        ["docker", *words],
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def docker(*words: str, timeout: float = 600) -> str:
    """Run a docker command and return what it prints; fails with what it said when it failed."""
    done = run(*words, timeout=timeout)
    assert not done.returncode, f"docker {' '.join(words)}: {done.stdout}{done.stderr}"
    return done.stdout


def missing() -> str:
    """Return why nothing can run here; empty when it can."""
    for words, what in (
        (["info"], "no Docker engine answers"),
        (["compose", "version"], "docker has no compose v2"),
        (["buildx", "version"], "docker has no buildx"),
    ):
        try:
            docker(*words, timeout=60)
        except (OSError, AssertionError, subprocess.TimeoutExpired):
            return what
    return ""


def build() -> None:
    """Build the images of the project, and those of others that are not here."""
    docker(*BUILD, "-f", "deploy/docker/Dockerfile", "-t", IMAGE, ".")
    docker(*BUILD, "-t", SERVER, "deploy/docker/server")
    for image, folder in OTHERS.items():
        if not docker("image", "ls", "--quiet", image).strip():
            try:
                docker("pull", "--quiet", image)
            except (AssertionError, subprocess.TimeoutExpired):
                docker(*BUILD, "-t", image, folder)


class System:
    """A compose project of its own, started and in the end removed with its volumes.

    ``seconds`` is how long it took until all were healthy.
    """

    def __init__(self, *files: str) -> None:
        self.files = files
        self.ports = {name: str(free_port()) for name in ("FLOWER", "PROMETHEUS", "GRAFANA")}
        self.variables = {f"{name}_PORT": port for name, port in self.ports.items()}
        self.variables["TQ_IMAGE"] = IMAGE
        self.project = f"tq-test-{os.getpid()}-{len(files)}"
        self.seconds = 0.0

    @property
    def services(self) -> list[str]:
        """What is started; what Grafana reads is checked elsewhere, for its image is large."""
        found = services(*self.files).items()
        return [name for name, each in found if name != "grafana" and "profiles" not in each]

    def run(self, *words: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        """Run ``docker compose`` on the project."""
        files = [word for name in self.files for word in ("-f", name)]
        return run("compose", "-p", self.project, *files, *words, timeout=timeout, **self.variables)

    def compose(self, *words: str, timeout: float = 600) -> str:
        """Run it, and return what it prints; fails with what it said when it failed."""
        done = self.run(*words, timeout=timeout)
        assert not done.returncode, f"compose {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def __enter__(self) -> Self:
        started = time.monotonic()
        try:
            self.up(*self.services)
        except BaseException:
            print(self.run("logs", "--no-color", "--tail", "40").stdout)
            self.__exit__()
            raise
        self.seconds = time.monotonic() - started
        return self

    def __exit__(self, *exc: object) -> None:
        self.compose("--profile", "producer", "down", "--volumes", "--timeout", "5")

    def up(self, *words: str) -> None:
        """Start services, again where they are not running, and wait until all are healthy."""
        self.compose("up", "-d", "--wait", "--no-build", "--no-recreate", *words)

    def produce(self, seed: int, window: str) -> dict[str, Any]:
        """Let one tenant flood four others, wait for the last task; returns the report.

        Fails unless every task ended well.
        """
        report = self.offer(seed, window, "--wait")
        assert report["outcomes"] == {"completed": report["total"]}, report
        return report

    def offer(self, seed: int, window: str, *words: str) -> dict[str, Any]:
        """Submit such a workload; goes on, as it says itself, where the server was away."""
        workload = ("multi_tenant", "--window", window, "--seed", str(seed), "--json", *words)
        while True:
            done = self.run("run", "--rm", "--no-deps", "-T", "producer", *workload)
            if "the same command goes on with the rest" not in done.stderr:
                break
        assert not done.returncode, done.stdout + done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        assert report["complete"], report
        return report

    def containers(self, service: str) -> list[dict[str, Any]]:
        """Return what the engine knows of a service's running containers."""
        ids = self.compose("ps", "-q", service).split()
        found: list[dict[str, Any]] = json.loads(docker("inspect", *ids)) if ids else []
        return found

    def ids(self, service: str) -> list[str]:
        """Return the ids of a service's running containers."""
        return [each["Id"] for each in self.containers(service)]

    def ask(self, *words: str) -> Any:
        """Return what a command of ``tq`` answers as JSON, run where no test breaks anything."""
        return json.loads(self.compose("exec", "-T", "flower", "tq", *words, "--json"))

    def status(self) -> dict[str, Any]:
        """Return what ``tq status`` answers; ``failed`` alone when it has no answer."""
        try:
            found: dict[str, Any] = self.ask("status")
        except AssertionError as error:
            return {"failed": str(error), "leader": {"owner": ""}, "queues": []}
        return found

    def leader(self) -> str:
        """Return the id of the container that leads; its short form is the host's name."""
        owner = self.status()["leader"]["owner"] or ""
        return next((each for each in self.ids("scheduler") if owner.startswith(each[:12])), "")

    def running(self) -> int:
        """Return how many tasks run."""
        return sum(queue["running"] for queue in self.status()["queues"])

    def completed(self) -> int:
        """Return how many tasks have ended well since the namespace began."""
        return sum(queue["totals"].get("completed", 0) for queue in self.ask("status")["queues"])

    def assert_nothing_is_left(self) -> None:
        """Wait until every queue is empty; fails when a task is missing."""

        def left() -> list[Any]:
            names = ("submitted", "pending", "dispatched", "running", "missing")
            return [queue for queue in self.ask("status")["queues"] if any(map(queue.get, names))]

        wait_until(lambda: not left(), "nothing waits, runs or is missing", 60, 1.0)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return what Prometheus answers to a query."""
        asked = urllib.parse.urlencode({"query": expression})
        found: list[dict[str, Any]] = self.prometheus(f"query?{asked}")["result"]
        return found

    def prometheus(self, path: str) -> Any:
        """Return what Prometheus answers under ``/api/v1``."""
        answer = self.fetch(f"http://127.0.0.1:{self.ports['PROMETHEUS']}/api/v1/{path}")
        return json.loads(answer)["data"]

    def fetch(self, url: str, login: str = "") -> str:
        """Return a page."""
        request = urllib.request.Request(url)
        if login:
            token = base64.b64encode(login.encode()).decode()
            request.add_header("Authorization", f"Basic {token}")
        with urllib.request.urlopen(request, timeout=10) as answer:
            text: str = answer.read().decode("utf-8")
        return text
