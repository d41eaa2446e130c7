"""What page and API show of a namespace, as JSON types; one reading serves all who ask at once.

Times are milliseconds, ages and remaining times too; shares are parts of 1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tq_celery.policies.registry import stored_ageing
from tq_celery.store.inspect import Inspector
from tq_celery.store.standing import Standings, TenantStanding
from tq_celery.store.views import DeadLetter, LeaderView, QueueView, WorkerView
from tq_celery.tenant_names import show

__all__ = ["DEAD", "ORDERS", "TENANTS", "letter", "take"]

#: Most tenants and dead letters of one snapshot.
TENANTS, DEAD = 1_000, 50
#: Longest payload preview, in characters.
PREVIEW = 2_000

#: What tenants can be sorted by, the greatest first.
ORDERS = ("waiting", "running", "share", "p95", "oldest", "weight", "tenant")


def take(inspector: Inspector, standings: Standings) -> dict[str, Any]:
    """Read the namespace; the parts are read one after the other, not atomically."""
    workers = inspector.workers()
    queues = inspector.queues(workers)
    tenants, partial = standings.read(TENANTS)
    config = inspector.config()
    return {
        "namespace": inspector.keys.namespace,
        "now": inspector.now(),
        "leader": _leader(inspector.leader()),
        "policy": _policy(config, queues),
        "queues": [_queue(view) for view in queues],
        "workers": [_worker(view) for view in workers],
        "tenants": [tenant(each) for each in tenants],
        "more_tenants": partial,
        "dead": inspector.dead_count(),
    }


def tenant(standing: TenantStanding) -> dict[str, Any]:
    """Return one tenant."""
    view = standing.view
    return {
        "tenant": show(view.tenant),
        "weight": view.weight,
        "max_running": view.max_running,
        "paused": view.paused,
        "waiting": standing.waiting,
        "running": view.running,
        "live": view.live,
        "queues": dict(view.pending),
        "served": standing.served,
        "share": standing.share,
        "fair": standing.fair,
        "p50": standing.p50,
        "p95": standing.p95,
        "oldest": standing.oldest,
        "service": standing.service,
        "mean": standing.mean,
    }


def letter(view: DeadLetter) -> dict[str, Any]:
    """Return one dead letter with the beginning of its message."""
    text = view.payload.decode(errors="replace")
    return {
        "entry": view.entry,
        "id": view.key.split(".", 3)[-1],
        "task": _task(view.payload),
        "queue": view.queue,
        "tenant": show(view.tenant),
        "reason": view.reason,
        "attempts": view.attempts,
        "at": view.at,
        "preview": text[:PREVIEW] + ("…" if len(text) > PREVIEW else ""),
        "readable": bool(view.key),
    }


def _leader(view: LeaderView) -> dict[str, Any]:
    return {
        "owner": view.owner,
        "epoch": view.epoch,
        "fence": view.fence,
        "remaining": view.remaining,
        "standbys": list(view.standbys),
    }


def _policy(config: Mapping[str, str], queues: Sequence[QueueView]) -> dict[str, Any]:
    most = config.get("max_running")
    return {
        "name": config.get("policy"),
        "order_within": config.get("order_within"),
        "ageing": stored_ageing(config),
        "generation": int(config["generation"]) if config.get("generation") else None,
        "max_running": int(most) if most else None,
        "unranked": sum(queue.unranked for queue in queues),
    }


def _queue(view: QueueView) -> dict[str, Any]:
    return {
        "queue": view.queue,
        "paused": view.paused,
        "submitted": view.submitted,
        "delayed": view.delayed,
        "pending": view.pending,
        "dispatched": view.dispatched,
        "running": view.running,
        "tenants": view.tenants + view.gated + view.unranked,
        "gated": view.gated,
        "workers": view.workers,
        "slots": view.slots,
        "totals": dict(view.totals),
    }


def _worker(view: WorkerView) -> dict[str, Any]:
    return {
        "worker": view.worker,
        "pool": view.pool,
        "queues": list(view.queues),
        "slots": view.slots,
        "holding": view.holding,
        "remaining": view.remaining,
    }


def _task(payload: bytes) -> str:
    """Return the task's name, empty when the message does not say it."""
    try:
        return str(json.loads(payload)["headers"]["task"])
    except (ValueError, TypeError, KeyError):
        return ""
