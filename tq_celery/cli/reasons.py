"""What a task waits for, from what the namespace says: each reason is a word and a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tq_celery.cli.durations import format_age
from tq_celery.scheduler.credit import components, pool_offers, rooms
from tq_celery.states import State
from tq_celery.store.contract import WorkerAnnouncement
from tq_celery.store.sighting import Sighting
from tq_celery.store.turn import Turn
from tq_celery.store.views import LeaderView, QueueView, TenantView, WorkerView

__all__ = ["Around", "Reason", "Room", "reasons", "room_of"]


@dataclass(frozen=True, slots=True)
class Reason:
    """``word`` is for scripts; ``text`` completes "it waits for"."""

    word: str
    text: str


@dataclass(frozen=True, slots=True)
class Room:
    """Places for the tasks of one queue: how many are ``free`` of its workers' ``slots``."""

    workers: int
    slots: int
    free: int


class Around(NamedTuple):
    """What surrounds a task: its tenant and queue, who leads, and what the workers offer.

    ``before`` counts the submitted tasks before a submitted one.
    """

    now: int
    leader: LeaderView
    tenant: TenantView
    queue: QueueView | None
    workers: Sequence[WorkerView]
    room: Room
    max_running: int | None = None
    running: int = 0
    turn: Turn | None = None
    before: int = 0


def room_of(queue: str, workers: Sequence[WorkerView], queues: Sequence[QueueView]) -> Room:
    """Return what the living workers offer a queue now, as dispatching would find it."""
    alive = [each for each in workers if each.remaining > 0]
    offers = pool_offers(
        WorkerAnnouncement(each.worker, each.queues, each.slots, each.ahead) for each in alive
    )
    serving = [each for each in alive if queue in each.queues]
    in_flight = {view.queue: view.dispatched + view.running for view in queues}
    free = 0
    for component in components(offers):
        for bundle, room in zip(component.bundles, rooms(component, in_flight), strict=True):
            free += room if queue in bundle.queues else 0
    return Room(len(serving), sum(each.slots for each in serving), free)


def reasons(seen: Sighting, around: Around) -> list[Reason]:
    """Return what the task waits for, what stops it altogether first; empty when it runs."""
    if seen.state is None:
        return [Reason("moving", "nothing: it is on its way from one state to the next")]
    if seen.state is State.RUNNING:
        return _of_running(seen, around)
    if seen.state is State.DISPATCHED:
        what = f"a worker of queue {seen.place.queue} to read it"
        return [*_no_worker(seen, around), Reason("unread", what)]
    if seen.state is State.DELAYED and seen.due > around.now:
        left = format_age((seen.due - around.now) / 1000)
        return [Reason("not_due", f"its time: it is not due until {left} from now")]
    found = []
    if around.leader.owner is None:
        found.append(Reason("no_leader", "a leader: no scheduler leads (start tq scheduler)"))
    if seen.state is State.DELAYED:
        return [*found, Reason("not_promoted", "the leader to promote it: it is due")]
    if seen.state is State.SUBMITTED:
        what = "the leader to admit it"
        behind = f", behind {around.before} submitted tasks" if around.before else ""
        return [*found, Reason("not_admitted", what + behind)]
    return [*found, *_held_back(seen, around), *_no_worker(seen, around), *_turn(seen, around)]


def _of_running(seen: Sighting, around: Around) -> list[Reason]:
    """A worker has it; whether that worker still lives is another matter."""
    holder = next((each for each in around.workers if each.worker == seen.worker), None)
    if holder is not None and holder.remaining > 0:
        return []
    gone = "is gone" if holder is None else "has been silent for longer than its lease"
    return [Reason("lapsed", f"a scheduler to take it back: worker {seen.worker} {gone}")]


def _held_back(seen: Sighting, around: Around) -> list[Reason]:
    """What keeps it from competing, or everything from being dispatched."""
    tenant, found = around.tenant, []
    if around.queue is not None and around.queue.paused:
        found.append(Reason("queue_paused", "its queue, which is paused (tq queues resume)"))
    if tenant.paused:
        found.append(Reason("tenant_paused", "its tenant, which is paused (tq tenants resume)"))
    cap = tenant.max_running
    if cap is not None and tenant.running >= cap:
        what = f"its tenant's cap: {tenant.running} of {cap} are running (tq tenants cap)"
        found.append(Reason("tenant_cap", what))
    if around.max_running is not None and around.running >= around.max_running:
        what = f"the namespace's cap: {around.running} of {around.max_running} are running"
        found.append(Reason("namespace_cap", f"{what} (tq policy cap)"))
    if seen.outdated:
        found.append(Reason("switch", "its rank: the policy was switched, and it is ranked anew"))
    return found


def _no_worker(seen: Sighting, around: Around) -> list[Reason]:
    if around.room.workers:
        return []
    what = f"a worker: none that lives consumes queue {seen.place.queue}"
    return [Reason("no_worker", what)]


def _turn(seen: Sighting, around: Around) -> list[Reason]:
    """Slots, and the tasks that get them first."""
    found, room, turn = [], around.room, around.turn
    if room.workers and not room.free:
        taken = f"all {room.slots} are taken" if room.slots else "its workers offer none"
        found.append(Reason("no_slot", f"a free slot: {taken}"))
    if turn is not None and turn.before:
        most = "more than " if turn.at_least else ""
        part = f"{turn.own} of them " if turn.own < turn.before else ""
        own = f", {part}its own tenant's" if turn.own else ""
        one = "task goes" if turn.before == 1 else "tasks go"
        found.append(Reason("behind", f"its turn: {most}{turn.before} {one} before it{own}"))
    return found
