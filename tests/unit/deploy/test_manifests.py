"""The Kubernetes manifests, rendered by kubectl, and that their check finds what is wrong.

``make check-manifests`` also holds them against the schemas of Kubernetes.

Seen to fail: with a misspelt variable in base, with the metric of the autoscaler misspelt, with a
selector of another component.
"""

from __future__ import annotations

import copy
import runpy
import shutil
import tomllib
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.unit.deploy.queries import DEPLOY, ROOT, mistakes
from tq_celery.settings import Settings
from tq_celery.store.urls import parse_url

Manifest = dict[str, Any]

CHECK = runpy.run_path(str(DEPLOY / "kubernetes" / "check.py"), run_name="check")
KUBECTL = shutil.which("kubectl")

#: A scheduler on which the check finds nothing.
SCHEDULER: Manifest = {
    "kind": "Deployment",
    "metadata": {"name": "scheduler"},
    "spec": {
        "replicas": 2,
        "template": {
            "metadata": {"labels": {"part": "scheduler"}},
            "spec": {
                "securityContext": {"runAsNonRoot": True},
                "containers": [
                    {
                        "name": "scheduler",
                        "image": "tq-celery:1.0",
                        "command": ["tq", "scheduler"],
                        "env": [{"name": "TQ_NAMESPACE", "value": "shop"}],
                        "readinessProbe": {"httpGet": {"path": "/readyz", "port": 9101}},
                        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                        "securityContext": {
                            "readOnlyRootFilesystem": True,
                            "allowPrivilegeEscalation": False,
                            "capabilities": {"drop": ["ALL"]},
                        },
                    }
                ],
            },
        },
    },
}


@pytest.fixture(scope="module")
def rendered() -> dict[str, list[Manifest]]:
    if KUBECTL is None:
        pytest.skip("kubectl is not installed")
    return {folder: CHECK["render"](folder) for folder in CHECK["FOLDERS"]}


def container(change: Callable[[Manifest], None], replicas: int = 2) -> list[Manifest]:
    """Return the scheduler with its container changed."""
    made = copy.deepcopy(SCHEDULER)
    made["spec"]["replicas"] = replicas
    change(made["spec"]["template"]["spec"]["containers"][0])
    return [made]


def with_variable(name: str, value: str, replicas: int = 2) -> list[Manifest]:
    def change(it: Manifest) -> None:
        it["env"].append({"name": name, "value": value})

    return container(change, replicas)


def with_words(*words: str, replicas: int = 2) -> list[Manifest]:
    return container(lambda it: it.update(args=list(words)), replicas)


OFF = "Deployment scheduler: 2 schedulers with the election off"


@pytest.mark.parametrize("words", [["--no-election"], ["--election", "off"], ["--election=false"]])
def test_several_schedulers_need_the_election(words: list[str]) -> None:
    assert CHECK["problems"](with_words(*words)) == [OFF]
    assert CHECK["problems"](with_words(*words, replicas=1)) == []


def test_the_election_is_not_turned_off_by_a_variable_either() -> None:
    assert OFF in CHECK["problems"](with_variable("TQ_ELECTION", "off"))
    assert OFF not in CHECK["problems"](with_variable("TQ_ELECTION", "off", replicas=1))


def test_a_scheduler_as_it_should_be_has_no_problem() -> None:
    assert CHECK["problems"]([SCHEDULER]) == []


@pytest.mark.parametrize(
    "manifests, problem",
    [
        (with_variable("TQ_LEASE", "soon"), "Deployment scheduler: tq_lease"),
        (with_variable("TQ_LEAS", "30s"), "Deployment scheduler: unknown setting"),
        (
            container(lambda it: it.update(envFrom=[{"configMapRef": {"name": "settings"}}])),
            "Deployment scheduler: there is no ConfigMap settings",
        ),
        (
            container(lambda it: it.pop("resources")),
            "Deployment scheduler: scheduler: no requests of processor time and memory",
        ),
        (
            container(lambda it: it.update(image="redis")),
            "Deployment scheduler: scheduler: image redis has no version",
        ),
        (
            container(lambda it: it["readinessProbe"]["httpGet"].update(path="/healthz")),
            "Deployment scheduler: readiness must be /readyz, which standbys answer too",
        ),
        (
            container(lambda it: it["securityContext"].pop("readOnlyRootFilesystem")),
            "Deployment scheduler: scheduler: its root file system can be written",
        ),
        (
            [
                SCHEDULER,
                {
                    "kind": "PodDisruptionBudget",
                    "metadata": {"name": "it"},
                    "spec": {"selector": {"matchLabels": {"part": "schedulers"}}},
                },
            ],
            "PodDisruptionBudget it: selects no pod",
        ),
    ],
)
def test_a_problem_is_found(manifests: list[Manifest], problem: str) -> None:
    (found,) = CHECK["problems"](manifests)
    assert found.startswith(problem)


@pytest.mark.parametrize("folder", CHECK["FOLDERS"])
def test_what_is_rendered_has_no_problem(folder: str, rendered: dict[str, list[Manifest]]) -> None:
    assert CHECK["problems"](rendered[folder]) == []


def workload(manifests: list[Manifest], name: str) -> Manifest:
    return next(
        each
        for each in manifests
        if each["metadata"]["name"] == name and "template" in each.get("spec", {})
    )


def settings(manifests: list[Manifest], name: str) -> Settings:
    (each,) = workload(manifests, name)["spec"]["template"]["spec"]["containers"]
    return Settings.load(environ=CHECK["environment"](each, manifests))


@pytest.mark.parametrize("folder", CHECK["FOLDERS"])
def test_two_schedulers_and_as_many_workers_as_work_asks_for(
    folder: str, rendered: dict[str, list[Manifest]]
) -> None:
    manifests = rendered[folder]
    assert workload(manifests, "scheduler")["spec"]["replicas"] == 2
    (scaler,) = (each for each in manifests if each["kind"] == "HorizontalPodAutoscaler")
    assert scaler["spec"]["metrics"][0]["external"]["metric"]["name"] == "tq_pending_tasks"
    budgets = {each["metadata"]["name"] for each in manifests if "Budget" in each["kind"]}
    assert {"scheduler", "worker"} <= budgets
    assert settings(manifests, "scheduler").metrics_port == 9101
    assert settings(manifests, "worker").metrics_port == 9102
    assert settings(manifests, "scheduler").lease == settings(manifests, "worker").lease


def test_every_address_of_the_overlays_is_a_service(rendered: dict[str, list[Manifest]]) -> None:
    for folder, master in (("overlays/wfq", ""), ("overlays/ha", "mymaster")):
        manifests = rendered[folder]
        services = {each["metadata"]["name"] for each in manifests if each["kind"] == "Service"}
        (each,) = workload(manifests, "worker")["spec"]["template"]["spec"]["containers"]
        variables = CHECK["environment"](each, manifests)
        target = parse_url(variables["TQ_URL"])
        assert target.master == master
        hosts = [*target.hosts, *parse_url(variables["CELERY_BROKER_URL"]).hosts]
        assert {host.rpartition(".")[2] for host, _ in hosts} <= services


def test_what_an_overlay_adds(rendered: dict[str, list[Manifest]]) -> None:
    assert settings(rendered["overlays/wfq"], "scheduler").policy == "wfq"
    assert settings(rendered["overlays/wfq"], "scheduler").max_pending_tenant == 100_000
    assert workload(rendered["overlays/wfq"], "producer")["kind"] == "Job"
    high = rendered["overlays/ha"]
    assert workload(high, "sentinel")["spec"]["replicas"] == 3
    names = [workload(high, "redis"), workload(high, "redis-replica")]
    assert sum(each["spec"]["replicas"] for each in names) == 3
    for each in names:
        arguments = each["spec"]["template"]["spec"]["containers"][0]["args"]
        assert arguments[arguments.index("--min-replicas-to-write") + 1] == "1"
        assert arguments[arguments.index("--appendonly") + 1] == "yes"
        assert "--replicaof" not in arguments, "it would be one again at each start"
        (first,) = each["spec"]["template"]["spec"]["initContainers"]
        assert arguments[0] in first["command"][-1], "it begins with the file of its role"
    (spread,) = workload(high, "scheduler")["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert spread["whenUnsatisfiable"] == "DoNotSchedule"


def test_each_sentinel_has_a_name_of_its_own_and_watches_the_same_primary() -> None:
    texts = [
        path.read_text("utf-8").splitlines()
        for path in sorted((DEPLOY / "kubernetes/overlays/ha/sentinel").glob("*.conf"))
    ]
    assert len(texts) == 3
    for word, different in (("myid", 3), ("announce-ip", 3), ("monitor", 1)):
        lines = {line for text in texts for line in text if line.startswith(f"sentinel {word} ")}
        assert len(lines) == different
    assert "sentinel monitor mymaster redis-0.redis 6379 2" in texts[0]


def test_the_images_are_of_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    for folder in ("base", "producer"):
        path = DEPLOY / "kubernetes" / folder / "kustomization.yaml"
        (image,) = yaml.safe_load(path.read_text("utf-8"))["images"]
        assert image == {"name": "tq-celery", "newTag": version}


def test_the_autoscaler_gets_a_number_that_is_exposed() -> None:
    path = DEPLOY / "kubernetes" / "monitoring" / "prometheus-adapter.yaml"
    (rule,) = yaml.safe_load(path.read_text("utf-8"))["rules"]["external"]
    query = rule["metricsQuery"].replace("<<.LabelMatchers>>", 'queue="mail"')
    assert mistakes(query) == []
    assert rule["seriesQuery"] == rule["name"]["as"] == "tq_pending_tasks"
