"""``tq doctor``: each check as a pure function, then against servers that are really wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner

from tests.servers import ValkeyServer
from tests.unit.cli.conftest import Command, Space
from tq_celery.cli import checks, main
from tq_celery.cli.checks import Facts, examine
from tq_celery.store.health import ServerFacts
from tq_celery.store.keys import Keys
from tq_celery.store.views import LeaderView, Overview, QueueView, TenantView, WorkerView

SERVER = ServerFacts(
    product="valkey",
    version=(8, 1, 0),
    role="master",
    replicas=0,
    eviction="noeviction",
    aof=True,
    appendfsync="always",
    snapshots=True,
    saving_fails=False,
    min_replicas=0,
    max_lag=10,
    used_memory=10,
    max_memory=0,
    skew=1.0,
    round_trip=0.2,
)
QUEUE = QueueView(
    queue="work",
    paused=False,
    submitted=0,
    delayed=0,
    pending=5,
    dispatched=0,
    running=1,
    tenants=1,
    gated=0,
    unranked=0,
    obituaries=0,
    workers=1,
    slots=1,
    missing=0,
    totals={"accepted": 6},
)
WORKER = WorkerView("w1", "host", 1, "solo", ("work",), 1, 0, 1, 20_000)
TENANT = TenantView(b"acme", 1.0, None, False, 6, 1, {"work": 5})
VIEW = Overview(
    namespace="shop",
    now=1_000_000,
    config={"schema": "1", "policy": "wfq"},
    leader=LeaderView("me", 3, 3, 1500),
    submitted=0,
    oldest=0,
    delayed=0,
    next_due=0,
    dead=0,
    starved=False,
    queues=[QUEUE],
    tenants=[TENANT],
    workers=[WORKER],
)
HEALTHY = Facts(SERVER, VIEW, {}, "1")


def server(**changes: Any) -> Facts:
    return replace(HEALTHY, server=replace(SERVER, **changes))


def view(**changes: Any) -> Facts:
    return replace(HEALTHY, view=replace(VIEW, **changes))


def queue(**changes: Any) -> Facts:
    return view(queues=[replace(QUEUE, **changes)])


def test_a_healthy_deployment_has_nothing_to_do() -> None:
    found = examine(HEALTHY)
    assert {finding.level for finding in found} == {"ok"}
    assert not any(finding.action for finding in found)


WRONG = [
    ("version", "error", server(version=(7, 2, 4)), "Valkey 7.2.4"),
    ("version", "error", server(product="redis", version=(6, 2)), "upgrade it to 7.0"),
    ("role", "error", server(role="slave"), "read-only replica"),
    ("scripts", "error", server(scripts="due: no permissions"), "refuses scripts"),
    ("cluster", "warn", server(cluster=True), "keep it at one node"),
    ("eviction", "error", server(eviction="allkeys-lru"), "allkeys-lru"),
    ("eviction", "warn", server(eviction=None), "noeviction"),
    ("memory", "warn", server(used_memory=95, max_memory=100), "95%"),
    ("persistence", "warn", server(aof=False), "snapshots only"),
    ("persistence", "warn", server(aof=False, snapshots=False), "nothing on disk"),
    ("persistence", "warn", server(aof=None), "allow the user INFO"),
    ("persistence", "warn", server(appendfsync="no"), "never synced"),
    ("persistence", "error", server(saving_fails=True), "could not save"),
    ("persistence", "warn", server(appendfsync="everysec"), "once a second"),
    ("replication", "warn", server(replicas=2), "min-replicas-to-write is 0"),
    ("replication", "warn", server(replicas=2, min_replicas=1, max_lag=0), "max-lag is 0"),
    ("replication", "warn", server(replicas=2, min_replicas=1, max_lag=60), "max-lag is 60"),
    ("replication", "warn", replace(HEALTHY, sentinels=True), "no replica"),
    ("grants", "warn", server(replicas=2), "or tq_leader_replicas"),
    ("grants", "error", replace(HEALTHY, leader_replicas=1), "1 and 0 replicas follow"),
    ("clock", "warn", server(skew=90_000), "1m30s ahead of"),
    ("clock", "warn", server(skew=-5_000), "5.0s behind"),
    ("schema", "error", view(config={"schema": "2", "policy": "wfq"}), "schema 2"),
    ("policy", "warn", view(config={"schema": "1"}), "no policy yet"),
    ("policy", "warn", queue(unranked=4), "4 tenants are not ranked"),
    ("leader", "error", view(leader=LeaderView(None, 3, 3, 0)), "5 tasks wait, and 1 workers"),
    ("leader", "error", view(leader=LeaderView("me", 3, 3, -1)), "no end"),
    ("leader", "warn", view(oldest=970_000), "submitted task has waited 30.0s"),
    ("leader", "warn", view(next_due=970_000), "delayed task has waited 30.0s"),
    ("workers", "warn", view(workers=[WORKER, replace(WORKER, remaining=-9000)]), "silent for 9"),
    ("workers", "warn", view(workers=[WORKER, replace(WORKER, queues=("typo",))]), "typo"),
    ("workers", "error", queue(workers=0), "5 tasks wait on queue work and no worker"),
    ("workers", "warn", view(workers=[], queues=[]), "no worker is announced"),
    ("paused", "warn", queue(paused=True), "1 queues are paused: work"),
    ("paused", "warn", view(tenants=[replace(TENANT, paused=True)] * 5), "acme and 2 more"),
    ("dead_letters", "warn", view(dead=7), "7 dead letters"),
    ("conservation", "error", queue(missing=2), "2 tasks too few"),
    ("conservation", "error", queue(missing=-2), "2 tasks too many"),
]


@pytest.mark.parametrize(("check", "level", "facts", "words"), WRONG)
def test_what_is_wrong_is_said_with_what_to_do(
    check: str, level: str, facts: Facts, words: str
) -> None:
    found = [f for f in examine(facts) if f.check == check and f.level == level]
    assert len(found) == 1
    assert words in f"{found[0].message}: {found[0].action}"
    assert found[0].action


def test_every_check_can_find_something() -> None:
    known = {check.__name__ for check in checks.SERVER_CHECKS + checks.NAMESPACE_CHECKS}
    assert {check for check, *_ in WRONG} == known - {"results"}, "which only tells"


@pytest.mark.parametrize(
    "facts",
    [
        server(replicas=2, min_replicas=1),
        server(replicas=2, min_replicas=1, max_lag=5),
        replace(server(replicas=2, min_replicas=1), sentinels=True, leader_replicas=2),
        server(min_replicas=None, max_lag=None),
    ],
    ids=["guarded", "guarded closely", "all guards", "a server that tells nothing"],
)
def test_replicas_that_are_guarded_are_nothing_to_warn_of(facts: Facts) -> None:
    assert {finding.level for finding in examine(facts)} == {"ok"}


def test_what_silent_replicas_may_cost_is_told() -> None:
    """No setting takes that away: the server learns of their silence only by waiting."""
    found = examine(server(replicas=2, min_replicas=1, max_lag=5))
    told = [finding for finding in found if finding.check == "replication"]
    assert [finding.level for finding in told] == ["ok"]
    assert "hear 1 replicas refuses tasks after 5 s" in told[0].message


@pytest.mark.parametrize(
    ("kept", "words"), [(None, "every result is kept"), (100_000, "about 100,000 results")]
)
def test_how_far_verify_can_look_is_told(kept: int | None, words: str) -> None:
    (found,) = [f for f in examine(replace(HEALTHY, results_maxlen=kept)) if f.check == "results"]
    assert (found.level, found.action) == ("ok", "")
    assert words in found.message


def test_nobody_leads_and_nothing_waits() -> None:
    idle = view(leader=LeaderView(None, 0, 0, 0), queues=[], workers=[])
    (found,) = [f for f in examine(idle) if f.check == "leader"]
    assert found.level == "warn"


def test_a_new_namespace_is_no_error(tq: Command, ask) -> None:
    result = tq("doctor")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1].startswith("0 errors")
    document = ask("doctor")
    assert set(document) == {"findings", "ok", "warn", "error"}
    assert set(document["findings"][0]) == {"check", "level", "message", "action"}


def test_pending_work_without_a_scheduler_is_an_error(space: Space, tq: Command) -> None:
    space.submit(2)
    result = tq("doctor")
    assert result.exit_code == 1
    assert "error no scheduler leads; 2 tasks wait: start tq scheduler\n" in result.stdout
    assert "no worker serves it: start a worker with -Q work\n" in result.stdout


def test_foreign_keys_are_named_and_nothing_else_is_read(space: Space, tq: Command) -> None:
    space.client.set(space.key("workers"), "x")
    result = tq("doctor")
    assert result.exit_code == 1
    assert f"{space.key('workers')} is a string, which this library never stores" in result.stdout


def test_a_server_that_evicts_and_hides_its_settings(make_server) -> None:
    server: ValkeyServer = make_server()
    with server.client() as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        client.execute_command("ACL", "SETUSER", "default", "-config")
    result = CliRunner().invoke(main, ["doctor", "--url", server.url])
    assert result.exit_code == 1
    assert "error the server evicts keys when memory runs out" in result.stdout


@pytest.mark.parametrize("kind", ["valkey", "redis"])
def test_facts_of_real_servers(make_server, kind: str) -> None:
    from tq_celery.store.client import connect
    from tq_celery.store.health import server_facts

    server: ValkeyServer = make_server(kind, appendonly=True)
    keys = Keys("shop")
    facts = server_facts(connect(server.url), keys)
    assert facts.scripts == ""
    connect(server.url).execute_command(
        "ACL", "SETUSER", "narrow", "on", ">pw", "~*", "+@all", "-@scripting"
    )
    narrow = server.url.replace("redis://", "redis://narrow:pw@")
    assert "no permissions" in server_facts(connect(narrow), keys).scripts
    assert next(checks.scripts(replace(HEALTHY, server=replace(SERVER, scripts="x"))))[0] == "error"
    assert facts.product == kind
    assert facts.version >= checks.FLOOR[kind]
    assert facts.aof is True
    assert facts.role == "master"
    assert (facts.min_replicas, facts.max_lag) == (0, 10)
    assert abs(facts.skew) < 1_000
