"""Check the Kubernetes manifests: ``python deploy/kubernetes/check.py``.

Base and overlays are rendered with ``kubectl kustomize`` and validated strictly against the schemas
of ``kubernetes-validate``; :func:`problems` finds what no schema knows: selectors that select
nothing, settings that are none, several schedulers without an election. No cluster is asked.
"""

from __future__ import annotations

import base64
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tq_celery.errors import SettingsError
from tq_celery.metrics.definitions import DEFINITIONS
from tq_celery.settings import Settings

Manifest = dict[str, Any]

HERE = Path(__file__).parent
FOLDERS = ("base", "overlays/wfq", "overlays/ha")

#: Versions of Kubernetes whose schemas the manifests are held against: the oldest and newest meant.
VERSIONS = ("1.30", "1.34")

#: Whatever a switch that turns the election off would be called.
_NO_ELECTION = re.compile(
    r"no[-_](leader[-_])?election\b|election\W*(=|:|\s)\W*(off|no|none|false|0|disabled?)\b",
    re.IGNORECASE,
)


def render(folder: str) -> list[Manifest]:
    """Return what would be applied; FileNotFoundError without kubectl."""
    done = subprocess.run(
        ["kubectl", "kustomize", str(HERE / folder)], check=True, capture_output=True, text=True
    )
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def invalid(manifests: list[Manifest], version: str) -> list[str]:
    """Return a sentence for each field that Kubernetes would not know or not take."""
    import kubernetes_validate

    found = []
    for manifest in manifests:
        try:
            kubernetes_validate.validate(manifest, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            place = ".".join(map(str, error.path))
            found.append(f"{_name(manifest)}: {place}: {error.message} (Kubernetes {version})")
    return found


def problems(manifests: list[Manifest]) -> list[str]:
    """Return a sentence for each thing that is valid and wrong."""
    found: list[str] = []
    for workload in _workloads(manifests):
        found += _pod(workload)
        found += _settings(workload, manifests)
        found += _election(workload, manifests)
    found += _selectors(manifests)
    found += _autoscalers(manifests)
    return found


def _pod(workload: Manifest) -> list[str]:
    found = []
    pod = workload["spec"]["template"]["spec"]
    if not pod.get("securityContext", {}).get("runAsNonRoot"):
        found.append("may run as root")
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        who, own = container["name"], container.get("securityContext", {})
        if not re.search(r":(?!latest$)[\w.-]+$", container["image"]):
            found.append(f"{who}: image {container['image']} has no version")
        if {"cpu", "memory"} - set(container.get("resources", {}).get("requests", {})):
            found.append(f"{who}: no requests of processor time and memory")
        if not own.get("readOnlyRootFilesystem"):
            found.append(f"{who}: its root file system can be written")
        if own.get("allowPrivilegeEscalation", True):
            found.append(f"{who}: may gain privileges")
        if own.get("capabilities", {}).get("drop") != ["ALL"]:
            found.append(f"{who}: keeps capabilities")
    if workload["kind"] != "Job":
        found += [
            f"{each['name']}: no readiness probe"
            for each in pod["containers"]
            if "readinessProbe" not in each
        ]
    return [f"{_name(workload)}: {each}" for each in found]


def environment(container: Manifest, manifests: list[Manifest]) -> dict[str, str]:
    """Return the variables of a container. KeyError names a source that is not there."""
    sources = {(m["kind"], m["metadata"]["name"]): m for m in manifests}
    found: dict[str, str] = {}
    for source in container.get("envFrom", []):
        if "configMapRef" in source:
            found |= sources["ConfigMap", source["configMapRef"]["name"]]["data"]
        else:
            secret = sources["Secret", source["secretRef"]["name"]]["data"]
            found |= {name: _decoded(value) for name, value in secret.items()}
    for each in container.get("env", []):
        found[each["name"]] = str(each.get("value", ""))
    return found


def _decoded(value: str) -> str:
    return base64.b64decode(value).decode("utf-8")


def _settings(workload: Manifest, manifests: list[Manifest]) -> list[str]:
    """Check the variables of our own parts; a part that cannot start is found here."""
    found = []
    for container in workload["spec"]["template"]["spec"]["containers"]:
        if not container["image"].startswith("tq-celery:"):
            continue
        try:
            Settings.load(environ=environment(container, manifests))
        except KeyError as missing:
            found.append(f"{_name(workload)}: there is no {' '.join(missing.args[0])}")
        except SettingsError as error:
            found.append(f"{_name(workload)}: {error}")
    return found


def _election(workload: Manifest, manifests: list[Manifest]) -> list[str]:
    """Several schedulers without an election would each dispatch everything."""
    found = []
    for container in workload["spec"]["template"]["spec"]["containers"]:
        words = [*container.get("command", []), *container.get("args", [])]
        if words[:1] != ["tq"] or "scheduler" not in words:
            continue
        probe = container.get("readinessProbe", {}).get("httpGet", {}).get("path")
        if probe != "/readyz":
            found.append(f"{_name(workload)}: readiness must be /readyz, which standbys answer too")
        try:
            variables = environment(container, manifests)
        except KeyError:
            continue
        said = [" ".join(words), *(f"{name}={value}" for name, value in variables.items())]
        replicas = workload["spec"].get("replicas", 1)
        if replicas > 1 and any(_NO_ELECTION.search(each) for each in said):
            found.append(f"{_name(workload)}: {replicas} schedulers with the election off")
    return found


def _selectors(manifests: list[Manifest]) -> list[str]:
    found = []
    pods = [each["spec"]["template"]["metadata"]["labels"] for each in _workloads(manifests)]
    for manifest in manifests:
        spec = manifest.get("spec", {})
        selectors = {
            "Service": [{"matchLabels": spec.get("selector", {})}],
            "PodDisruptionBudget": [spec.get("selector", {})],
            "NetworkPolicy": [spec.get("podSelector", {})],
        }.get(manifest["kind"], [])
        for selector in selectors:
            if not any(_selects(selector, labels) for labels in pods):
                found.append(f"{_name(manifest)}: selects no pod")
    return found


def _selects(selector: Manifest, labels: dict[str, str]) -> bool:
    wanted = {name: [value] for name, value in selector.get("matchLabels", {}).items()}
    wanted |= {each["key"]: each["values"] for each in selector.get("matchExpressions", [])}
    return all(labels.get(name) in values for name, values in wanted.items())


def _autoscalers(manifests: list[Manifest]) -> list[str]:
    found = []
    workloads = {(m["kind"], m["metadata"]["name"]): m for m in _workloads(manifests)}
    for manifest in (m for m in manifests if m["kind"] == "HorizontalPodAutoscaler"):
        target = manifest["spec"]["scaleTargetRef"]
        scaled = workloads.get((target["kind"], target["name"]))
        if scaled is None:
            found.append(f"{_name(manifest)}: there is no {target['kind']} {target['name']}")
        elif "replicas" in scaled["spec"]:
            found.append(f"{_name(scaled)}: replicas would undo what the autoscaler did")
        for metric in manifest["spec"]["metrics"]:
            asked = metric["external"]["metric"]
            definition = DEFINITIONS.get(asked["name"])
            labels = set(asked.get("selector", {}).get("matchLabels", {}))
            if definition is None or labels - set(definition.labels):
                found.append(f"{_name(manifest)}: nobody exposes {asked['name']} {sorted(labels)}")
    return found


def _workloads(manifests: list[Manifest]) -> Iterator[Manifest]:
    yield from (m for m in manifests if m["kind"] in ("Deployment", "StatefulSet", "Job"))


def _name(manifest: Manifest) -> str:
    return f"{manifest['kind']} {manifest['metadata']['name']}"


def main() -> int:
    """Check all folders; returns the exit code."""
    wrong = 0
    for folder in FOLDERS:
        try:
            manifests = render(folder)
        except FileNotFoundError:
            print("check-manifests needs kubectl, which is not installed", file=sys.stderr)
            return 2
        except subprocess.CalledProcessError as error:
            print(f"{folder}: {' '.join(error.stderr.split())}", file=sys.stderr)
            return 1
        found = problems(manifests)
        for version in VERSIONS:
            found += invalid(manifests, version)
        wrong += len(found)
        for each in found:
            print(f"{folder}: {each}")
        print(f"{folder}: {len(manifests)} manifests, {len(found)} problems")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
