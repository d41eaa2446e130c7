"""Every metric: its name, kind, labels, who exposes it, and what it means.

Who exposes what decides what happens when a process ends:

* ``leader``: numbers of the namespace, read from the store at each scrape by the scheduler that
  leads, and by nobody else. They live in the store, so neither a killed worker nor a killed leader
  takes any along: the next leader goes on with the same numbers. A scheduler that stops leading
  stops exposing them at once, so that they never count twice. Without a leader they are absent.
* ``scheduler``: what one scheduler process has done and how it is, leading or not. They begin at
  zero with the process. Add the counters up over all processes; a gauge speaks of its own process.
* ``worker``: timings of the tasks that one worker has settled. They begin at zero with the process.
* ``both``: what schedulers and workers alike expose of themselves.

Labels are bounded: queues, tenants (the first few, and ``other`` for the rest), and words of the
code. No host, process, consumer or task is ever a label: Prometheus knows where it scraped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from tq_celery.states import State

__all__ = ["DEFINITIONS", "METRICS", "OTHER", "Definition", "Exposer", "Kind"]

Kind = Literal["counter", "gauge", "histogram"]
Exposer = Literal["leader", "scheduler", "worker", "both"]

#: The tenant that stands for all that have no series of their own.
OTHER: Final = "other"


@dataclass(frozen=True, slots=True)
class Definition:
    """One metric; see the module. ``name`` is what a query names, with its unit and ``_total``."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    exposer: Exposer
    meaning: str


def _all(exposer: Exposer, *rows: tuple[str, Kind, str, str]) -> tuple[Definition, ...]:
    return tuple(
        Definition(name, kind, tuple(labels.split()), exposer, meaning)
        for name, kind, labels, meaning in rows
    )


#: What each state's gauge counts.
_STATES = {
    State.SUBMITTED: "Tasks in ingress, not admitted yet.",
    State.DELAYED: "Tasks that are not due yet.",
    State.PENDING: "Tasks admitted and ranked, waiting for a slot.",
    State.DISPATCHED: "Tasks sent to workers and not read by one yet.",
    State.RUNNING: "Tasks in a worker's hands, started or not.",
}

_NAMESPACE = _all(
    "leader",
    ("tq_accepted_tasks_total", "counter", "queue", "Tasks accepted."),
    ("tq_admitted_tasks_total", "counter", "queue", "Tasks moved from ingress to pending."),
    ("tq_promoted_tasks_total", "counter", "queue", "Tasks moved from delayed to pending, as due."),
    ("tq_settled_tasks_total", "counter", "queue outcome", "Tasks settled, by how they ended."),
    (
        "tq_reclaimed_deliveries_total", "counter", "queue",
        "Deliveries taken back because their worker was lost, or no worker was there.",
    ),
    (
        "tq_returned_deliveries_total", "counter", "queue",
        "Deliveries that a worker gave back: at its stop, over a rate limit, or to a free slot.",
    ),
    (
        "tq_duplicates_suppressed_total", "counter", "queue step",
        "Submits of a known key, and ends of deliveries that had been settled or taken back.",
    ),
    (
        "tq_deadline_tasks_total", "counter", "queue",
        "Tasks with a deadline that completed, failed, expired, were ignored or rejected.",
    ),
    (
        "tq_deadlines_missed_total", "counter", "queue",
        "Those of them that ended after their deadline; on it is in time.",
    ),
    (
        "tq_service_seconds_total", "counter", "queue",
        "Time that settled tasks ran, as their workers reported it.",
    ),
    *(
        (f"tq_{state}_tasks", "gauge", "queue", meaning)
        for state, meaning in _STATES.items()
    ),
    (
        "tq_missing_tasks", "gauge", "queue",
        "Tasks accepted and neither settled nor live: 0, unless something is wrong.",
    ),
    (
        "tq_oldest_wait_seconds", "gauge", "queue",
        "Longest wait among the tasks that are next of their tenants; 0 when none is pending.",
    ),
    (
        "tq_longest_wait_seconds", "gauge", "queue",
        "Longest wait of the tasks that ended in this or the last hour of the server's clock.",
    ),
    ("tq_ingress_wait_seconds", "gauge", "", "Wait of the first task in ingress; 0 without one."),
    ("tq_waiting_tenants", "gauge", "queue", "Tenants that compete for the queue's slots."),
    ("tq_gated_tenants", "gauge", "queue", "Tenants held back by a cap or a pause."),
    ("tq_unranked_tenants", "gauge", "queue", "Tenants that a policy switch has not reached yet."),
    ("tq_waiting_obituaries", "gauge", "queue", "Ends that a worker still has to write down."),
    ("tq_queue_paused", "gauge", "queue", "1 while the queue is paused."),
    ("tq_queue_workers", "gauge", "queue", "Live workers that consume the queue."),
    ("tq_queue_slots", "gauge", "queue", "Slots of those workers; one slot may serve many queues."),
    ("tq_live_workers", "gauge", "", "Workers whose lease is current."),
    ("tq_lapsed_workers", "gauge", "", "Workers whose lease ran out, not recovered yet."),
    ("tq_slots", "gauge", "", "Slots that live workers offer."),
    ("tq_busy_slots", "gauge", "", "Slots of live workers that have a delivery."),
    (
        "tq_slot_seconds_total", "counter", "",
        "Time that slots were offered, as the leader sees it every 5 s.",
    ),
    ("tq_busy_slot_seconds_total", "counter", "", "The same of slots that had a delivery."),
    ("tq_starved", "gauge", "", "1 while work waits for a slot."),
    ("tq_dead_letters", "gauge", "", "Dead letters kept."),
    ("tq_dropped_entries_total", "counter", "stream", "Entries that the cap of a stream dropped."),
    ("tq_draining_tasks", "gauge", "", "Drained tasks that are not known to be published."),
    ("tq_policy_info", "gauge", "policy order_within", "1, with the policy in force."),
    ("tq_leader_epoch", "gauge", "", "Last epoch granted: grows by one with every new leader."),
    ("tq_standby_schedulers", "gauge", "", "Schedulers that stand by."),
    ("tq_leader_lease_age_seconds", "gauge", "", "Time since the leader's lease was renewed."),
    ("tq_tenants", "gauge", "", "Tenants with live tasks."),
    ("tq_tenant_waiting_tasks", "gauge", "tenant", "Live tasks of the tenant, not dispatched."),
    ("tq_tenant_in_flight_tasks", "gauge", "tenant", "Tasks of the tenant, dispatched or running."),
    (
        "tq_tenant_oldest_wait_seconds", "gauge", "tenant",
        "Wait of the tenant's next pending task; 0 when none is pending.",
    ),
    (
        "tq_tenant_service_seconds_total", "counter", "tenant",
        "Time that the tenant's settled tasks ran; of `other`, those of tenants without series.",
    ),
    (
        "tq_tenant_waits_total", "counter", "tenant",
        "Settled tasks of the tenant that had been dispatched.",
    ),
    (
        "tq_tenant_wait_seconds_total", "counter", "tenant",
        "Time that those waited, from submitted, or due, to the dispatch that ended them.",
    ),
    ("tq_tenant_weight", "gauge", "tenant", "Weight of the tenant; not of `other`."),
    ("tq_tenant_paused", "gauge", "tenant", "1 while the tenant is paused; not of `other`."),
)  # fmt: skip

_SCHEDULER = _all(
    "scheduler",
    ("tq_scheduler_is_leader", "gauge", "", "1 while this process may lead."),
    ("tq_scheduler_epoch", "gauge", "", "Epoch of this process's term; 0 when it does not lead."),
    ("tq_scheduler_ready", "gauge", "", "1 while it reaches the store, leading or not."),
    (
        "tq_scheduler_namespace_read", "gauge", "",
        "1 when this scrape has the numbers of the namespace; 0 on a standby, or unreadable.",
    ),
    ("tq_scheduler_terms_total", "counter", "", "Times this process became leader."),
    ("tq_scheduler_depositions_total", "counter", "", "Times it lost the lease."),
    ("tq_scheduler_fenced_writes_total", "counter", "", "Its writes that the fence refused."),
    ("tq_scheduler_admitted_total", "counter", "", "Tasks it moved from ingress to pending."),
    ("tq_scheduler_promoted_total", "counter", "", "Tasks it moved from delayed to pending."),
    ("tq_scheduler_dispatched_total", "counter", "", "Deliveries it sent to workers."),
    ("tq_scheduler_reranked_total", "counter", "", "Tasks it ranked again after a switch."),
    ("tq_scheduler_reclaimed_total", "counter", "", "Deliveries it took back from lost workers."),
    ("tq_scheduler_orphans_total", "counter", "", "Deliveries it found without any worker."),
    ("tq_scheduler_buried_total", "counter", "", "Entries it buried because nobody can read them."),
    ("tq_loop_rounds_total", "counter", "loop", "Rounds of a background loop."),
    ("tq_loop_failures_total", "counter", "loop", "Rounds that failed."),
    (
        "tq_loop_last_success_age_seconds", "gauge", "loop",
        "Time since a round succeeded. An idle loop rests for up to 30 s.",
    ),
)  # fmt: skip

_WORKER = _all(
    "worker",
    ("tq_queue_wait_seconds", "histogram", "queue", "From submitted, or due, to the start."),
    ("tq_execution_seconds", "histogram", "queue", "From the start to the end."),
    ("tq_task_latency_seconds", "histogram", "queue", "From submitted, or due, to the end."),
    ("tq_worker_slots", "gauge", "", "Slots it offers now."),
    ("tq_worker_held_deliveries", "gauge", "", "Deliveries in its hands."),
    ("tq_worker_store_age_seconds", "gauge", "", "Time since the store answered it."),
)

_BOTH = _all(
    "both",
    ("tq_build_info", "gauge", "version role", "1, with the version and what the process is."),
    ("tq_script_seconds", "histogram", "script", "Time of this process's calls of a script."),
    ("tq_script_errors_total", "counter", "script error", "Those that failed, by kind of error."),
)

#: All metrics, in the order of the reference.
METRICS: Final = (*_NAMESPACE, *_SCHEDULER, *_WORKER, *_BOTH)

#: The same by name.
DEFINITIONS: Final = {each.name: each for each in METRICS}
