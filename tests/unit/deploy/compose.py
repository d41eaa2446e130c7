"""The compose files as data, put together as ``docker compose`` does it, without an engine."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import yaml

from tests.unit.deploy.queries import ROOT

__all__ = ["FILES", "merged", "services", "words"]

FILES = {
    "one server": ("docker-compose.yml",),
    "sentinels": ("docker-compose.yml", "deploy/docker/compose.ha.yml"),
}

#: ``${NAME:-value}``.
_VARIABLE = re.compile(r"\$\{\w+:-([^}]*)\}")


@cache
def merged(*files: str) -> dict[str, Any]:
    """Return the files merged: mappings by key, a later command or test instead of the earlier."""
    whole: dict[str, Any] = {}
    for name in files:
        text = _VARIABLE.sub(r"\1", (ROOT / name).read_text("utf-8"))
        whole = _merge(whole, yaml.safe_load(text))
    return whole


def _merge(below: Any, above: Any, name: str = "") -> Any:
    if isinstance(below, dict) and isinstance(above, dict):
        both = dict(below)
        for key, value in above.items():
            both[key] = _merge(below[key], value, key) if key in below else value
        return both
    if isinstance(below, list) and isinstance(above, list) and name not in ("command", "test"):
        return [*below, *above]
    return above


def services(*files: str) -> dict[str, dict[str, Any]]:
    """Return the services of the files merged."""
    found: dict[str, dict[str, Any]] = merged(*files)["services"]
    return found


def words(service: dict[str, Any]) -> list[str]:
    """Return what a container runs."""
    return [*service.get("entrypoint", []), *service.get("command", [])]
