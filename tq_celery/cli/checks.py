"""What ``tq doctor`` knows: pure checks over facts that were read before.

Each check yields a finding per thing that is wrong, or one that says what is right. An *error*
keeps tasks from running or can lose them; a *warn* is something an operator should know.
"""

from __future__ import annotations

from collections.abc import Callable

from tq_celery.cli import names
from tq_celery.cli.durations import format_age
from tq_celery.cli.findings import Facts, Finding, Found, Level
from tq_celery.cli.losses import eviction, grants, persistence, replication, results

__all__ = ["NAMESPACE_CHECKS", "SERVER_CHECKS", "Facts", "Finding", "Level", "examine"]

#: Oldest servers that have what the scripts need.
FLOOR = {"redis": (7, 0), "valkey": (8, 0)}
#: Clock difference in ms from which deadlines given as a point in time go visibly wrong.
SKEW = 1_000
#: Age in ms of the first submitted task from which a leader counts as behind.
BEHIND = 10_000
#: Share of maxmemory from which little room is left.
FULL = 0.9
#: Tenants or queues named in one finding.
NAMED = 3


def version(facts: Facts) -> Found:
    """Is the server new enough?"""
    server = facts.server
    product, number = server.product.capitalize(), ".".join(map(str, server.version))
    floor = FLOOR[server.product]
    if server.version < floor:
        needed = ".".join(map(str, floor))
        yield "error", f"the server is {product} {number}", f"upgrade it to {needed} or newer"
    else:
        yield "ok", f"the server is {product} {number}", ""


def scripts(facts: Facts) -> Found:
    """Does the server run our scripts?"""
    if facts.server.scripts:
        yield (
            "error",
            f"the server refuses scripts ({facts.server.scripts})",
            "allow this user EVAL, EVALSHA and SCRIPT on the namespace's keys",
        )
    else:
        yield "ok", "the server runs scripts", ""


def role(facts: Facts) -> Found:
    """Does the server take writes?"""
    if facts.server.role in ("slave", "replica"):
        yield (
            "error",
            "the server is a read-only replica",
            "point --url at the primary, or use a sentinel:// URL",
        )


def cluster(facts: Facts) -> Found:
    """Is the server part of something larger?"""
    if facts.server.cluster:
        yield (
            "warn",
            "the server is a node of a Redis Cluster",
            "keep it at one node: a namespace is in one slot, and nothing here follows it",
        )


def memory(facts: Facts) -> Found:
    """Is there room for more tasks?"""
    used, limit = facts.server.used_memory, facts.server.max_memory
    if limit and used >= FULL * limit:
        yield (
            "warn",
            f"the server uses {used / limit:.0%} of its maxmemory",
            "give it more memory, or bound what may wait with tq_max_pending",
        )


def clock(facts: Facts) -> Found:
    """Do deadlines given as a point in time mean the same here and there?"""
    skew = facts.server.skew
    if abs(skew) - facts.server.round_trip / 2 > SKEW:
        direction = "ahead of" if skew > 0 else "behind"
        yield (
            "warn",
            f"the server's clock is {format_age(abs(skew) / 1000)} {direction} this machine's",
            "run a time service on both; deadlines given as a point in time are off by as much",
        )
    else:
        yield "ok", "the server's clock agrees with this machine's", ""


def schema(facts: Facts) -> Found:
    """Was the namespace written by a release that understands ours?"""
    stored = facts.view.config.get("schema")
    if stored is not None and stored.partition(".")[0] != facts.schema.partition(".")[0]:
        yield (
            "error",
            f"the namespace has schema {stored} and this release reads {facts.schema}",
            "use the release that wrote it, or another namespace",
        )
    for key, actual in facts.foreign.items():
        yield (
            "error",
            f"{key} is a {actual}, which this library never stores there",
            "another program uses the namespace; choose a different one",
        )


def leader(facts: Facts) -> Found:
    """Does a scheduler lead, and does it get on?"""
    view, held = facts.view, facts.view.leader
    waiting = view.submitted + view.delayed + sum(queue.pending for queue in view.queues)
    if held.owner is None:
        alive = sum(worker.remaining > 0 for worker in view.workers)
        level: Level = "error" if waiting or alive else "warn"
        consequence = f"; {waiting} tasks wait" if waiting else ""
        served = f", and {alive} workers have nobody to serve them" if alive else ""
        yield level, f"no scheduler leads{consequence}{served}", "start tq scheduler"
    elif held.remaining < 0:
        yield (
            "error",
            "the leader's lease has no end, so no other scheduler can ever take over",
            "delete the namespace's leader key; the next scheduler takes it",
        )
    else:
        left = format_age(held.remaining / 1000)
        yield "ok", f"{held.owner} leads under epoch {held.epoch} for {left} more", ""
        for what, since in (("submitted", view.oldest), ("delayed", view.next_due)):
            if since and view.now - since > BEHIND:
                yield (
                    "warn",
                    (
                        f"the first {what} task has waited {format_age((view.now - since) / 1000)} "
                        "for the leader"
                    ),
                    "see whether the scheduler is wedged or out of CPU",
                )


def workers(facts: Facts) -> Found:
    """Do workers and queues match?"""
    view = facts.view
    alive = [worker for worker in view.workers if worker.remaining > 0]
    for worker in view.workers:
        if worker.remaining <= 0:
            since = format_age(-worker.remaining / 1000)
            yield (
                "warn",
                f"worker {worker.worker} is silent for {since} and holds {worker.holding} tasks",
                "a running scheduler returns them; if it stays, see whether one runs",
            )
    used = {queue.queue for queue in view.queues if queue.totals.get("accepted")}
    for worker in alive:
        if used and not used & set(worker.queues):
            yield (
                "warn",
                (
                    f"worker {worker.worker} serves only queues that never took a task: "
                    f"{_some(list(worker.queues))}"
                ),
                "compare its -Q with the queues in tq queues list",
            )
    unserved = False
    for queue in view.queues:
        waiting = queue.submitted + queue.pending + queue.dispatched
        if waiting and not queue.workers:
            unserved = True
            yield (
                "error",
                f"{waiting} tasks wait on queue {queue.queue} and no worker serves it",
                f"start a worker with -Q {queue.queue}",
            )
    if alive and not unserved:
        yield "ok", f"{len(alive)} workers serve every queue that has work", ""
    elif not alive and not unserved:
        yield "warn", "no worker is announced", "start a worker of the application"


def paused(facts: Facts) -> Found:
    """Does something wait only because somebody paused it?"""
    queues = [queue.queue for queue in facts.view.queues if queue.paused]
    tenants = [names.show(tenant.tenant) for tenant in facts.view.tenants if tenant.paused]
    for noun, found in (("queues", queues), ("tenants", tenants)):
        if found:
            yield (
                "warn",
                f"{len(found)} {noun} are paused: {_some(found)}",
                f"tq {noun} resume, when that is no longer wanted",
            )


def policy(facts: Facts) -> Found:
    """Is a policy stored, and has a switch reached every tenant?"""
    stored = facts.view.config.get("policy")
    if stored is None:
        yield "warn", "the namespace has no policy yet", "start tq scheduler, which seeds it"
        return
    unranked = sum(queue.unranked for queue in facts.view.queues)
    if unranked:
        yield (
            "warn",
            f"a switch to {stored} is under way; {unranked} tenants are not ranked yet",
            "wait; if the number does not fall, see whether a scheduler leads",
        )
    else:
        yield "ok", f"the policy is {stored}", ""


def dead_letters(facts: Facts) -> Found:
    """Were tasks given up?"""
    if facts.view.dead:
        yield (
            "warn",
            f"there are {facts.view.dead} dead letters",
            "tq dlq list shows them; requeue or purge them",
        )
    else:
        yield "ok", "there are no dead letters", ""


def conservation(facts: Facts) -> Found:
    """Is every accepted task settled or live?"""
    off = {queue.queue: queue.missing for queue in facts.view.queues if queue.missing}
    for queue, missing in off.items():
        yield (
            "error",
            (
                f"queue {queue}: {abs(missing)} tasks too {'few' if missing > 0 else 'many'} are "
                "settled or live for what was accepted"
            ),
            "report it with the output of tq status --json",
        )
    if not off and facts.view.queues:
        yield "ok", "every accepted task is settled or live", ""


#: What the server alone tells, in the order of the report.
SERVER_CHECKS: tuple[Callable[[Facts], Found], ...] = (
    version,
    scripts,
    role,
    cluster,
    eviction,
    memory,
    persistence,
    replication,
    grants,
    results,
    clock,
    schema,
)
#: What needs a readable namespace.
NAMESPACE_CHECKS: tuple[Callable[[Facts], Found], ...] = (
    policy,
    leader,
    workers,
    paused,
    dead_letters,
    conservation,
)


def examine(facts: Facts) -> list[Finding]:
    """Run every check; of a namespace with foreign keys, only those that need not read it."""
    checks = SERVER_CHECKS if facts.foreign else SERVER_CHECKS + NAMESPACE_CHECKS
    return [
        Finding(check.__name__, level, message, action)
        for check in checks
        for level, message, action in check(facts)
    ]


def _some(found: list[str]) -> str:
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return ", ".join(found[:NAMED]) + more
