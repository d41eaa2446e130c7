"""What a PromQL query names: its metrics, and the labels that it selects and groups by."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tq_celery.metrics.definitions import DEFINITIONS

ROOT = Path(__file__).resolve().parents[3]
DEPLOY = ROOT / "deploy"

#: What Prometheus itself adds to everything that it scraped.
TARGET = {"job", "instance"}

_SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\s*\{([^}]*)\}")
_GROUPING = re.compile(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_METRIC = re.compile(r"\b(tq[_:][\w:]*|up|ALERTS)\b")


def load(*parts: str) -> Any:
    return yaml.safe_load(DEPLOY.joinpath(*parts).read_text("utf-8"))


def rules() -> Iterator[dict[str, Any]]:
    """Yield every recording and alert rule."""
    for path in sorted((DEPLOY / "prometheus" / "rules").glob("*.yml")):
        for group in yaml.safe_load(path.read_text("utf-8"))["groups"]:
            yield from group["rules"]


RECORDED = {rule["record"]: rule["expr"] for rule in rules() if "record" in rule}


def metrics(query: str) -> set[str]:
    """Return the metrics and recorded series that the query reads."""
    bare = _GROUPING.sub(" ", re.sub(r'"[^"]*"', '""', query))
    return set(_METRIC.findall(re.sub(r"\{[^}]*\}", "", bare)))


def labels_of(name: str) -> set[str]:
    """Return the labels that a series has; KeyError when there is no such series."""
    if name == "up":
        return set(TARGET)
    if name in RECORDED:
        grouped = _GROUPING.findall(RECORDED[name])
        return {label.strip() for each in grouped for label in each.split(",")} - {"le", ""}
    if name in DEFINITIONS and DEFINITIONS[name].kind != "histogram":
        return TARGET | set(DEFINITIONS[name].labels)
    stem, _, suffix = name.rpartition("_")
    histogram = DEFINITIONS[stem]
    if histogram.kind != "histogram" or suffix not in ("bucket", "sum", "count"):
        raise KeyError(name)
    return TARGET | set(histogram.labels) | ({"le"} if suffix == "bucket" else set())


def mistakes(query: str) -> list[str]:
    """Return a sentence for each series that nobody exposes, and each label that it has not."""
    found = []
    known: set[str] = set()
    for name in sorted(metrics(query)):
        try:
            known |= labels_of(name)
        except KeyError:
            found.append(f"nobody exposes {name}")
    for name, selector in _SELECTOR.findall(query):
        for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", re.sub(r'"[^"]*"', '""', selector)):
            if metrics(name) and not found and label not in labels_of(name):
                found.append(f"{name} has no label {label}")
    for each in _GROUPING.findall(query):
        for label in filter(None, (part.strip() for part in each.split(","))):
            if label not in known:
                found.append(f"nothing in the query has a label {label}")
    for argument in _summed(query):
        for name in sorted(metrics(argument) & set(DEFINITIONS)):
            if DEFINITIONS[name].exposer == "leader" and "max" not in argument:
                found.append(f"{name} is the leader's: a sum may count it twice")
    if not metrics(query):
        found.append("the query names no metric")
    return found


def _summed(query: str) -> Iterator[str]:
    """Yield what each ``sum`` of the query adds up."""
    for match in re.finditer(r"\bsum(?:\s+by\s*\([^)]*\))?\s*\(", query):
        depth, end = 1, match.end()
        while depth and end < len(query):
            depth += {"(": 1, ")": -1}.get(query[end], 0)
            end += 1
        yield query[match.end() : end - 1]
