"""Scrape configuration and rules: they name what exists, and say what to do.

Seen to fail: with ``tq_dead_letters`` misspelt in a rule, with ``by (tenant)`` on a metric of
queues, with ``sum`` over a number of the namespace, with another port in docker-compose.yml.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.unit.deploy.queries import DEPLOY, RECORDED, ROOT, load, metrics, mistakes, rules

RULES = list(rules())
ALERTS = [rule for rule in RULES if "alert" in rule]


def name(rule: dict[str, Any]) -> str:
    return rule.get("alert") or rule["record"]


@pytest.mark.parametrize(
    "query, mistake",
    [
        ("sum(tq_scheduler_is_leader)", []),
        ('up{job=~"tq-.+"} == 0', []),
        ("sum by (le, queue) (rate(tq_queue_wait_seconds_bucket[5m]))", []),
        ("tq_execution_seconds", ["nobody exposes tq_execution_seconds"]),
        ("tq_dead_letter > 0", ["nobody exposes tq_dead_letter"]),
        ("max by (tenant) (tq_pending_tasks)", ["nothing in the query has a label tenant"]),
        ('tq_slots{queue="a"}', ["tq_slots has no label queue"]),
        ("sum(tq_slots) > 1", ["tq_slots is the leader's: a sum may count it twice"]),
        ("sum by (queue) (max by (queue) (tq_pending_tasks))", []),
        ("1 > 0", ["the query names no metric"]),
    ],
)
def test_mistakes_in_queries_are_found(query: str, mistake: list[str]) -> None:
    assert mistakes(query) == mistake


@pytest.mark.parametrize("rule", RULES, ids=name)
def test_a_rule_names_what_is_exposed(rule: dict[str, Any]) -> None:
    assert mistakes(rule["expr"]) == []


def test_names_are_unique() -> None:
    names = [name(rule) for rule in RULES]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("rule", ALERTS, ids=name)
def test_an_alert_says_how_urgent_it_is_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("page", "ticket")
    assert set(rule["annotations"]) == {"summary", "description"}
    used = re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values()))
    grouped = re.findall(r"\b(?:by|on) \(([^)]*)\)", rule["expr"])
    kept = {label.strip() for each in grouped for label in each.split(",")}
    assert set(used) <= kept | ({"job", "instance"} if "up{" in rule["expr"] else set())


def test_the_two_alerts_on_leadership_say_what_one_would() -> None:
    expressions = {name(rule): rule["expr"] for rule in ALERTS}
    assert expressions["TqNoLeader"].startswith("sum(tq_scheduler_is_leader) == 0 or absent(")
    assert expressions["TqSplitBrain"] == "sum(tq_scheduler_is_leader) > 1"


def test_every_recorded_series_is_used() -> None:
    dashboard = (DEPLOY / "grafana" / "dashboards" / "tq.json").read_text("utf-8")
    used = {each for rule in ALERTS for each in metrics(rule["expr"])}
    assert not [name for name in RECORDED if name not in used and name not in dashboard]


def test_every_target_is_a_service_and_its_port() -> None:
    config = load("prometheus", "prometheus.yml")
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    for service in ("scheduler", "worker"):
        (target,) = jobs[f"tq-{service}"]["dns_sd_configs"]
        assert target["names"] == [service]
        assert services[service]["environment"]["TQ_METRICS_PORT"] == str(target["port"])


def test_the_rules_are_loaded() -> None:
    config = load("prometheus", "prometheus.yml")
    found = {path for each in config["rule_files"] for path in (DEPLOY / "prometheus").glob(each)}
    assert found == set((DEPLOY / "prometheus" / "rules").iterdir())
