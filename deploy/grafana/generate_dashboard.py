"""Write ``dashboards/tq.json``, the Grafana dashboard, from the list of panels below.

Run ``python deploy/grafana/generate_dashboard.py`` after changing it; a test compares the two and
checks every query against the table of metrics. ``$queue`` is what is chosen on the page. Numbers
of the namespace come from the leader alone and are taken with max: around a failover two instances
may have them. What each process counts for itself is added up.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("dashboards") / "tq.json"

#: The page is 24 columns wide.
COLUMNS = 24
SOURCE = {"type": "prometheus", "uid": "${datasource}"}

#: A panel: kind, title, what it says, width, unit, queries with their legends, and what is special.
Panel = tuple[str, str, str, int, str, dict[str, str], dict[str, Any]]

RED_AT_ONE = {"steps": [("green", None), ("red", 1)]}
GREEN_AT_ONE_ONLY = {"steps": [("red", None), ("green", 1), ("red", 2)]}
STACKED = {"stack": "normal", "fill": 30}

ROWS: dict[str, list[Panel]] = {
    "At a glance": [
        ("stat", "Leaders", "Exactly one scheduler leads.", 4, "none",
         {"sum(tq_scheduler_is_leader) or vector(0)": ""}, GREEN_AT_ONE_ONLY),
        ("stat", "Waiting", "Tasks in ingress or ranked, not dispatched.", 4, "short",
         {'sum(max by (queue) (tq_submitted_tasks{queue=~"$queue"})) + '
          'sum(max by (queue) (tq_pending_tasks{queue=~"$queue"}))': ""}, {}),
        ("stat", "Longest wait", "Of the tasks that are next of their tenants.", 4, "s",
         {'max(tq_oldest_wait_seconds{queue=~"$queue"})': ""}, {}),
        ("stat", "Slots busy", "Of those that live workers offer.", 4, "percentunit",
         {"tq:slots:busy_ratio": ""}, {}),
        ("stat", "Dead letters", "Kept until they are requeued or purged.", 4, "short",
         {"max(tq_dead_letters)": ""}, RED_AT_ONE),
        ("stat", "Unaccounted for", "Tasks neither settled nor live; 0, always.", 4, "short",
         {"sum(max by (queue) (abs(tq_missing_tasks)))": ""}, RED_AT_ONE),
    ],
    "Fairness": [
        ("timeseries", "Who has the slots", "Tasks in flight by tenant.", 12, "short",
         {"max by (tenant) (tq_tenant_in_flight_tasks)": "{{tenant}}"}, STACKED),
        ("timeseries", "Who waits", "Wait of each tenant's next task.", 12, "s",
         {"max by (tenant) (tq_tenant_oldest_wait_seconds)": "{{tenant}}"}, {}),
        ("timeseries", "Share of service",
         "As tasks end, over five minutes. Dashed: what its weight entitles a tenant with work to.",
         12, "percentunit",
         {"tq:tenant_service_share:rate5m": "{{tenant}}",
          "tq:tenant_fair_share": "{{tenant}} entitled"},
         {"dashed": "entitled$"}),
        ("timeseries", "Share of the slots",
         "Of the tasks in flight, over five minutes: for tasks that run for longer than that.",
         12, "percentunit", {"tq:tenant_share:avg5m": "{{tenant}}"}, {}),
        ("timeseries", "Service", "Seconds a second: the slots that a tenant keeps busy.", 12,
         "short", {"tq:tenant_service:rate5m": "{{tenant}}"}, STACKED),
        ("timeseries", "Waiting by tenant", "Live tasks that are not dispatched.", 12, "short",
         {"max by (tenant) (tq_tenant_waiting_tasks)": "{{tenant}}"}, STACKED),
    ],
    "Waits": [
        ("timeseries", "Queue wait", "From submitted, or due, to the start.", 8, "s",
         {'tq:queue_wait_seconds:p50_5m{queue=~"$queue"}': "{{queue}} p50",
          'tq:queue_wait_seconds:p95_5m{queue=~"$queue"}': "{{queue}} p95",
          'tq:queue_wait_seconds:p99_5m{queue=~"$queue"}': "{{queue}} p99"}, {}),
        ("timeseries", "Execution", "From the start to the end, p95.", 8, "s",
         {"histogram_quantile(0.95, sum by (le, queue) (rate(tq_execution_seconds_bucket"
          '{queue=~"$queue"}[$__rate_interval])))': "{{queue}}"}, {}),
        ("timeseries", "Latency", "From submitted, or due, to the end, p95.", 8, "s",
         {"histogram_quantile(0.95, sum by (le, queue) (rate(tq_task_latency_seconds_bucket"
          '{queue=~"$queue"}[$__rate_interval])))': "{{queue}}"}, {}),
        ("timeseries", "Waits by tenant", "Mean of the tasks that ended within five minutes.", 8,
         "s", {"tq:tenant_wait_seconds:mean5m": "{{tenant}}"}, {}),
        ("timeseries", "Longest wait", "Of the tasks that ended in this hour or the last.", 8, "s",
         {'max by (queue) (tq_longest_wait_seconds{queue=~"$queue"})': "{{queue}}"}, {}),
        ("timeseries", "Deadlines missed", "Of the tasks that have one, over five minutes.", 8,
         "percentunit", {'tq:deadlines:missed_ratio5m{queue=~"$queue"}': "{{queue}}"}, {}),
    ],
    "Depth": [
        ("timeseries", "Live tasks by state", "Accepted and not settled.", 8, "short",
         {f'sum(max by (queue) (tq_{state}_tasks{{queue=~"$queue"}}))': state
          for state in ("submitted", "delayed", "pending", "dispatched", "running")}, STACKED),
        ("timeseries", "Accepted and settled", "Tasks per second.", 8, "ops",
         {'sum(tq:accepted_tasks:rate1m{queue=~"$queue"})': "accepted",
          'sum(tq:settled_tasks:rate1m{queue=~"$queue"})': "settled"}, {}),
        ("timeseries", "How tasks end", "Per second, by outcome.", 8, "ops",
         {'sum by (outcome) (tq:settled_tasks:rate1m{queue=~"$queue"})': "{{outcome}}"}, STACKED),
        ("timeseries", "Pending by queue", "Admitted and ranked.", 8, "short",
         {'max by (queue) (tq_pending_tasks{queue=~"$queue"})': "{{queue}}"}, {}),
        ("timeseries", "Wait in ingress", "Grows when the leader is behind.", 8, "s",
         {"max(tq_ingress_wait_seconds)": "first in ingress"}, {}),
        ("timeseries", "Tenants", "Competing, and held back by a cap or a pause.", 8, "short",
         {'sum(max by (queue) (tq_waiting_tenants{queue=~"$queue"}))': "competing",
          'sum(max by (queue) (tq_gated_tenants{queue=~"$queue"}))': "held back",
          'sum(max by (queue) (tq_unranked_tenants{queue=~"$queue"}))': "not ranked yet"}, {}),
    ],
    "Leadership": [
        ("state-timeline", "Who leads", "One scheduler at a time.", 12, "none",
         {"max by (instance) (tq_scheduler_is_leader)": "{{instance}}"},
         {"states": {"0": ("stands by", "blue"), "1": ("leads", "green")}}),
        ("timeseries", "Changes", "New terms, lost leases, and writes that the fence refused.", 6,
         "short",
         {"sum(increase(tq_scheduler_terms_total[$__rate_interval]))": "new terms",
          "sum(increase(tq_scheduler_depositions_total[$__rate_interval]))": "lost leases",
          "sum(increase(tq_scheduler_fenced_writes_total[$__rate_interval]))": "fenced writes"},
         {}),
        ("timeseries", "Age of the lease", "Since the leader renewed it.", 6, "s",
         {"max(tq_leader_lease_age_seconds)": "lease"}, {}),
        ("timeseries", "Loops", "Time since a round succeeded; idle loops rest for 30 s.", 12, "s",
         {"max by (instance, loop) (tq_loop_last_success_age_seconds)": "{{instance}} {{loop}}"},
         {}),
        ("timeseries", "Work of the leader", "Tasks moved per second.", 12, "ops",
         {"sum(rate(tq_scheduler_admitted_total[$__rate_interval]))": "admitted",
          "sum(rate(tq_scheduler_promoted_total[$__rate_interval]))": "promoted",
          "sum(rate(tq_scheduler_dispatched_total[$__rate_interval]))": "dispatched",
          "sum(rate(tq_scheduler_reranked_total[$__rate_interval]))": "ranked again"}, {}),
    ],
    "Workers": [
        ("timeseries", "Workers", "With a lease that is current, or ran out.", 6, "short",
         {"max(tq_live_workers)": "live", "max(tq_lapsed_workers)": "lapsed"}, {}),
        ("timeseries", "Slots", "Offered, and with a delivery.", 6, "short",
         {"max(tq_slots)": "offered", "max(tq_busy_slots)": "busy"}, {}),
        ("timeseries", "Slots used", "Share of their time with a delivery, over five minutes.", 6,
         "percentunit", {"tq:slots:utilisation5m": "used"}, {}),
        ("timeseries", "Taken back", "Deliveries of lost workers.", 6, "short",
         {"sum(increase(tq_scheduler_reclaimed_total[$__rate_interval]))": "reclaimed",
          "sum(increase(tq_scheduler_orphans_total[$__rate_interval]))": "without a worker"}, {}),
        ("timeseries", "Contact with the server", "Since it answered; the worst worker.", 12, "s",
         {"max(tq_worker_store_age_seconds)": "worst"}, {}),
        ("timeseries", "Duplicates suppressed",
         "Submits of a known key, and ends of deliveries that were settled or taken back.", 12,
         "ops",
         {"sum by (step) (max by (queue, step) "
          "(rate(tq_duplicates_suppressed_total[$__rate_interval])))": "{{step}}"}, {}),
        ("timeseries", "Calls of scripts", "p95 over all processes.", 12, "s",
         {"histogram_quantile(0.95, sum by (le, script) "
          "(rate(tq_script_seconds_bucket[$__rate_interval])))": "{{script}}"}, {}),
        ("timeseries", "Scripts that fail", "Calls per second.", 12, "ops",
         {"sum by (script, error) (rate(tq_script_errors_total[$__rate_interval]))":
          "{{script}} {{error}}"}, {}),
    ],
}  # fmt: skip


def panel(spec: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    """Return one panel as Grafana has it."""
    kind, title, description, _, unit, queries, special = spec
    defaults: dict[str, Any] = {"unit": unit, "min": 0}
    options: dict[str, Any] = {}
    overrides: list[dict[str, Any]] = []
    if kind == "timeseries":
        defaults["custom"] = {
            "lineWidth": 1,
            "fillOpacity": special.get("fill", 0),
            "showPoints": "never",
            "stacking": {"mode": special.get("stack", "none"), "group": "A"},
        }
        options = {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    elif kind == "stat":
        steps = special.get("steps", [("blue", None)])
        defaults["thresholds"] = {
            "mode": "absolute",
            "steps": [{"color": color, "value": value} for color, value in steps],
        }
        options = {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "colorMode": "background",
            "graphMode": "area",
        }
    if "states" in special:
        words = {
            value: {"text": text, "color": color, "index": int(value)}
            for value, (text, color) in special["states"].items()
        }
        defaults["mappings"] = [{"type": "value", "options": words}]
    if "dashed" in special:
        dash = {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [6, 6]}}
        overrides.append(
            {
                "matcher": {"id": "byRegexp", "options": f"/{special['dashed']}/"},
                "properties": [dash],
            }
        )
    targets = [
        {"refId": chr(ord("A") + i), "datasource": SOURCE, "expr": query, "legendFormat": legend}
        for i, (query, legend) in enumerate(queries.items())
    ]
    return {
        "id": number,
        "type": kind,
        "title": title,
        "description": description,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": overrides},
        "options": options,
        "targets": targets,
    }


def panels() -> list[dict[str, Any]]:
    """Return all panels with their places: rows under each other, panels from left to right."""
    found: list[dict[str, Any]] = []
    y = 0
    for title, specs in ROWS.items():
        found.append(
            {
                "id": len(found) + 1,
                "type": "row",
                "title": title,
                "collapsed": False,
                "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1},
                "panels": [],
            }
        )
        y += 1
        x = height = 0
        for spec in specs:
            width = spec[3]
            if x + width > COLUMNS:
                x, y = 0, y + height
            height = 4 if spec[0] == "stat" else 8
            found.append(panel(spec, len(found) + 1, {"x": x, "y": y, "w": width, "h": height}))
            x += width
        y += height
    return found


def variables() -> list[dict[str, Any]]:
    """Return what can be chosen on the page."""
    queues = "label_values(tq_pending_tasks, queue)"
    return [
        {"name": "datasource", "label": "Source", "type": "datasource", "query": "prometheus"},
        {
            "name": "queue",
            "label": "Queue",
            "type": "query",
            "datasource": SOURCE,
            "definition": queues,
            "query": {"query": queues, "refId": "queues"},
            "refresh": 2,
            "sort": 1,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": ["All"], "value": ["$__all"]},
        },
    ]


def text() -> str:
    """Return the dashboard as the file has it."""
    page = {
        "uid": "tq-celery",
        "title": "tq-celery",
        "tags": ["celery", "tq"],
        "schemaVersion": 39,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "5s",
        "time": {"from": "now-15m", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "templating": {"list": variables()},
        "panels": panels(),
    }
    return json.dumps(page, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PAGE.write_text(text(), "utf-8")
