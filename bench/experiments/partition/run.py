"""One partition: two schedulers and two workers, one of them behind a proxy that cuts it off."""

from __future__ import annotations

import contextlib
import time
from typing import Any, NamedTuple

from bench.experiments.partition.account import Account, Window, again, longest_gap, shares
from bench.experiments.partition.arms import Arm, Plan, begin
from bench.harness import books
from bench.harness.errors import BenchError
from bench.harness.failures.records import lost, settled_twice, stale
from bench.harness.failures.scene import Scene
from bench.harness.proxy import FaultProxy
from bench.harness.servers import redis_server

__all__ = ["Trial", "partition"]

#: Seconds for the load to be settled once it has ended, beyond two leases.
PATIENCE = 60.0
#: The scene's name of the worker that is cut off.
CUT_OFF = "worker1"


class Trial(NamedTuple):
    """What was found, and the moments for the chart.

    ``moments`` are seconds from the cut, with whether the side that was cut off dispatched (of a
    leader) or settled (of a worker) that task.
    """

    account: Account
    moments: list[tuple[float, bool]]
    server: str


class _Cut(NamedTuple):
    """Who was cut off, and when: on the server's clock and on the system's monotonic one."""

    leader: int
    worker: int
    window: Window
    cut: float
    healed: float


def partition(arm: Arm, plan: Plan, kind: str, seed: int = 1) -> Trial:
    """Run one trial on a server of its own.

    Raises BenchError when the scene cannot be set or the load is not settled in the end.
    """
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(redis_server(kind))
        proxy = stack.enter_context(FaultProxy(server.port))
        # the ratio of the defaults: a lease is six times the time-out of a call
        env = {"TQ_PUBLISH_TIMEOUT": f"{plan.lease / 6:g}"}
        scene = stack.enter_context(
            Scene(server.url(), ttl=plan.ttl, lease=plan.lease, env=env, client=server.client)
        )
        cut = _cut_off(scene, proxy, arm, plan, seed)
        scene.drained(PATIENCE + 2 * plan.lease)
        _all_are_back(scene)
        account, moments = _account(scene, arm, plan, cut)
        return Trial(account, moments, server.version)


def _cut_off(scene: Scene, proxy: FaultProxy, arm: Arm, plan: Plan, seed: int) -> _Cut:
    """Start everything, send the load, and cut one side off meanwhile."""
    of_leader = arm.side == "leader"
    behind = f"redis://127.0.0.1:{proxy.port}"
    far = {"TQ_URL": f"{behind}/0", "FAILURES_BROKER": f"{behind}/1"}
    leader = scene.scheduler(env=far if of_leader else None)
    if scene.await_leader() is not leader:
        raise BenchError("the first scheduler does not lead")
    scene.scheduler()
    worker = scene.worker("threads", plan.slots, env=None if of_leader else far)
    scene.worker("threads", plan.slots)
    before = plan.before + (0.0 if of_leader else plan.lease)
    rate, task = (
        (plan.leader_rate, plan.leader_task) if of_leader
        else (plan.worker_rate, plan.worker_task)
    )  # fmt: skip
    load = scene.load(rate, before + arm.seconds(plan) + plan.after, args=(task,), seed=seed)
    load.began()
    time.sleep(before)
    begin(proxy, arm)
    scene.now()  # the server has answered whatever had got through
    at, cut = scene.now(), time.monotonic()
    time.sleep(arm.seconds(plan))
    window, healed = Window(at, scene.now()), time.monotonic()
    proxy.heal()
    load.finish()
    return _Cut(leader.pid, worker.pid, window, cut, healed)


def _all_are_back(scene: Scene) -> None:
    """Wait until everybody runs, offers slots or leads; raises BenchError."""
    for worker in scene.workers:
        scene.announced(worker)
    for scheduler in scene.schedulers:
        scheduler.check()
    scene.await_leader()


def _account(
    scene: Scene, arm: Arm, plan: Plan, cut: _Cut
) -> tuple[Account, list[tuple[float, bool]]]:
    client, keys, window = scene.client, scene.keys, cut.window
    records, owners = scene.records(), _grants(scene)
    starts = [each for each in scene.bodies() if not each.ended]
    results = list(books.result_entries(client, keys))
    ended = {record["id"].decode(): at for at, record in results}
    dispatched = [(each.entry[0], owners[each.epoch][0] == cut.leader) for each in records]
    settled = [(at, b"-%d-" % cut.worker in record["worker"]) for at, record in results]
    # what it ran when it was cut off, and what it may have run until it was healed
    held = {
        each.id for each in starts
        if each.worker == CUT_OFF and each.at <= cut.cut and ended.get(each.id, 0) > window.cut
    }  # fmt: skip
    excused = {
        each.id for each in starts
        if each.worker == CUT_OFF and each.at <= cut.healed and arm.side == "worker"
    }  # fmt: skip
    repeated = again(each.id for each in starts)
    if arm.side == "leader":
        resumed = longest_gap([at for at, _ in dispatched], window)
    else:
        resumed = (max((ended[each] for each in held), default=window.cut) - window.cut) / 1000
    accepted = scene.loads[0].accepted()
    account = Account(
        seconds=arm.seconds(plan),
        accepted=len(accepted),
        resumed=resumed,
        dispatched=shares(dispatched, window),
        settled=shares(settled, window),
        grants=sum(at > window.cut for _, at in owners.values()),
        writes_refused=_fenced(client),
        settlements_refused=books.counters(client, keys)["resettled"],
        held=len(held),
        again=len(repeated),
        unexplained=[each for each in repeated if each not in excused],
        stale=len(stale(records)),
        lost=lost(accepted, records),
        settled_twice=[key[0] for key in settled_twice(records)],
        left=scene.left(),
        violations=scene.broken(),
    )
    drawn = dispatched if arm.side == "leader" else settled
    return account, [((at - window.cut) / 1000, cut_off) for at, cut_off in drawn]


def _fenced(client: Any) -> int:
    """Return how many writes the server has refused for their epoch."""
    return int(client.info("errorstats").get("errorstat_TQFENCED", {}).get("count", 0))


def _grants(scene: Scene) -> dict[int, tuple[int, int]]:
    """Return the process that was granted each epoch, and when (ms of the server's clock)."""
    found = {}
    for entry, fields in scene.client.xrange(scene.keys.name("leadership")):
        if fields[b"k"] == b"granted":
            pid = int(fields[b"owner"].decode().rsplit("-", 2)[1])
            found[int(fields[b"epoch"])] = (pid, int(entry.partition(b"-")[0]))
    return found
