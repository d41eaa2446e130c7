"""What ``tq doctor`` says of faults of the server: what each would lose as it is configured.

``python -m bench storefault`` and ``serverfaults`` show the losses that are named here.
"""

from __future__ import annotations

from tq_celery.cli.findings import Facts, Found

__all__ = ["eviction", "grants", "persistence", "replication", "results"]

#: Seconds for which a primary that is cut off may take tasks: as many as the server's own default.
LONGEST_LAG = 10


def eviction(facts: Facts) -> Found:
    """Can the server throw away our keys?"""
    policy = facts.server.eviction
    if policy is None:
        yield (
            "warn",
            "the server does not tell its eviction policy",
            "make sure that maxmemory-policy is noeviction",
        )
    elif policy != "noeviction":
        yield (
            "error",
            f"the server evicts keys when memory runs out (maxmemory-policy {policy})",
            "set maxmemory-policy to noeviction",
        )
    else:
        yield "ok", "the server evicts nothing", ""


def persistence(facts: Facts) -> Found:
    """What does a restart of the server lose?"""
    server = facts.server
    if server.saving_fails:
        yield (
            "error",
            "the server could not save its data the last time it tried",
            "look at its log; usually the disk is full",
        )
    elif server.aof is None:
        yield (
            "warn",
            "the server does not tell this user what it keeps on disk",
            "make sure that appendonly is yes, or allow the user INFO",
        )
    elif server.aof and server.appendfsync == "no":
        yield (
            "warn",
            "the append-only file is never synced by the server itself",
            "set appendfsync to everysec or always",
        )
    elif server.aof and server.appendfsync == "everysec":
        yield (
            "warn",
            "the append-only file is synced once a second; a crash can lose what came since",
            "set appendfsync to always where a second of accepted tasks is too much",
        )
    elif server.aof:
        yield "ok", f"the append-only file is on (appendfsync {server.appendfsync or '?'})", ""
    elif server.snapshots:
        yield (
            "warn",
            "the server keeps snapshots only; a restart loses what came after the last one",
            "set appendonly to yes",
        )
    else:
        yield (
            "warn",
            "the server keeps nothing on disk; a restart loses every accepted task",
            "set appendonly to yes",
        )


def replication(facts: Facts) -> Found:
    """Can a failover lose acknowledged tasks unseen?"""
    server, lag = facts.server, facts.server.max_lag
    if facts.sentinels and not server.replicas:
        yield (
            "warn",
            "the URL names Sentinels and the primary has no replica; nothing can take its place",
            "start a replica, or see why none follows",
        )
    if server.replicas and (server.min_replicas == 0 or lag == 0):
        unset = "min-replicas-to-write" if server.min_replicas == 0 else "min-replicas-max-lag"
        yield (
            "warn",
            (
                f"the server has {server.replicas} replicas and {unset} is 0; "
                "a primary cut off from them still accepts tasks that a failover loses"
            ),
            f"set {unset} to {1 if server.min_replicas == 0 else LONGEST_LAG}",
        )
    elif server.replicas and server.min_replicas and lag and lag > LONGEST_LAG:
        yield (
            "warn",
            (
                f"min-replicas-max-lag is {lag}; for so many seconds "
                "a primary cut off from its replicas accepts tasks that a failover loses"
            ),
            f"set min-replicas-max-lag to {LONGEST_LAG} or less",
        )
    elif server.replicas and server.min_replicas and lag:
        yield (
            "ok",
            (
                f"a primary that does not hear {server.min_replicas} replicas refuses tasks "
                f"after {lag} s; a failover loses what it took until then"
            ),
            "",
        )


def grants(facts: Facts) -> Found:
    """Can a failover forget who was elected?"""
    server, asked = facts.server, facts.leader_replicas
    if asked > server.replicas and server.role == "master":
        yield (
            "error",
            (
                f"tq_leader_replicas is {asked} and {server.replicas} replicas follow the server; "
                "no scheduler can begin to lead"
            ),
            "start replicas, or ask for no more than there are",
        )
    elif server.replicas and not asked and server.min_replicas == 0:
        yield (
            "warn",
            "a failover can forget the last leader's epoch, as no replica needs to have it",
            "set min-replicas-to-write, or tq_leader_replicas for the schedulers, to 1",
        )


def results(facts: Facts) -> Found:
    """How far back can ``tq verify`` look? Nothing else depends on it."""
    kept = facts.results_maxlen
    much = "every result is kept" if kept is None else f"about {kept:,} results are kept"
    yield "ok", f"{much}; tq verify needs all that it is to judge", ""
