"""The dashboard is what its generator writes, and every query asks for what is exposed.

Grafana is not run here; types and names are checked, as it would refuse or silently show nothing.

Seen to fail: with a panel's metric misspelt, with the file edited by hand, with a panel moved onto
another, with the dashboards mounted elsewhere.
"""

from __future__ import annotations

import json
import re
import runpy
from typing import Any

import pytest
import yaml

from tests.unit.deploy.queries import DEPLOY, ROOT, load, mistakes

GENERATOR = runpy.run_path(str(DEPLOY / "grafana" / "generate_dashboard.py"))
PAGE = json.loads(GENERATOR["text"]())
PANELS = [panel for panel in PAGE["panels"] if panel["type"] != "row"]
QUERIES = [
    (panel["title"], target["expr"], target["legendFormat"])
    for panel in PANELS
    for target in panel["targets"]
]


def test_the_file_is_what_the_generator_writes() -> None:
    written = (DEPLOY / "grafana" / "dashboards" / "tq.json").read_text("utf-8")
    assert written == GENERATOR["text"](), "run: python deploy/grafana/generate_dashboard.py"


@pytest.mark.parametrize("title, query, legend", QUERIES)
def test_a_query_asks_for_what_is_exposed(title: str, query: str, legend: str) -> None:
    query = query.replace("$__rate_interval", "1m")
    assert mistakes(query) == []
    assert not re.search(r"\$(?!queue\b)", query)
    for label in re.findall(r"\{\{(\w+)\}\}", legend):
        grouped = re.findall(r"by \(([^)]*)\)", query)
        recorded = [word.strip() for each in grouped for word in each.split(",")]
        assert label in recorded or query.startswith("tq:"), f"{title}: {label} is not kept"


def test_what_can_be_chosen_exists() -> None:
    source, queue = PAGE["templating"]["list"]
    assert source["type"] == "datasource"
    assert source["query"] == "prometheus"
    asked = re.fullmatch(r"label_values\((\w+), (\w+)\)", queue["definition"])
    assert asked
    metric, label = asked.groups()
    assert mistakes(f"max by ({label}) ({metric})") == []


def test_panels_have_numbers_of_their_own_and_do_not_overlap() -> None:
    assert len({panel["id"] for panel in PAGE["panels"]}) == len(PAGE["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in PAGE["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


def test_every_aspect_has_its_row() -> None:
    rows = [panel["title"] for panel in PAGE["panels"] if panel["type"] == "row"]
    assert rows == ["At a glance", "Fairness", "Waits", "Depth", "Leadership", "Workers"]


def of_type(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def test_the_source_is_provisioned_as_grafana_reads_it() -> None:
    config = load("grafana", "provisioning", "datasources", "prometheus.yml")
    assert config["apiVersion"] == 1
    (source,) = config["datasources"]
    kinds = {"name": str, "uid": str, "type": str, "access": str, "url": str, "isDefault": bool}
    for field, kind in kinds.items():
        assert of_type(source[field], kind), field
    assert source["type"] == "prometheus"
    scrape = load("prometheus", "prometheus.yml")["global"]["scrape_interval"]
    assert source["jsonData"]["timeInterval"] == scrape


def test_the_dashboard_is_provisioned_from_where_it_is_mounted() -> None:
    (provider,) = load("grafana", "provisioning", "dashboards", "tq.yml")["providers"]
    assert provider["type"] == "file"
    assert of_type(provider["disableDeletion"], bool)
    assert of_type(provider["updateIntervalSeconds"], int)
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]
    mounts = {
        inside: outside
        for outside, inside, _ in (each.split(":") for each in services["grafana"]["volumes"])
    }
    assert (ROOT / mounts[provider["options"]["path"]] / "tq.json").is_file()
    assert (ROOT / mounts["/etc/grafana/provisioning"] / "datasources").is_dir()
    home = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home == f"{provider['options']['path']}/tq.json"
