"""The ``tq`` command itself: the table of commands."""

from __future__ import annotations

from tq_celery.cli.groups import Lazy, LazyGroup

__all__ = ["main"]

COMMANDS = {
    "scheduler": Lazy("tq_celery.cli.scheduler:scheduler", "Run a scheduler; one of them leads."),
    "status": Lazy("tq_celery.cli.status:status", "Show leader, queues, tenants and workers."),
    "top": Lazy("tq_celery.cli.top:top", "Watch leader, queues and tenants, live."),
    "explain": Lazy("tq_celery.cli.explain:explain", "Say what one task waits for."),
    "policy": Lazy("tq_celery.cli.policy:policy", "Show or switch the policy of a namespace."),
    "tenants": Lazy("tq_celery.cli.tenants:tenants", "Weigh, cap, pause and resume tenants."),
    "queues": Lazy("tq_celery.cli.queues:queues", "List, pause and resume queues."),
    "dlq": Lazy("tq_celery.cli.dlq:dlq", "Read, requeue and purge dead letters."),
    "cancel": Lazy("tq_celery.cli.cancel:cancel", "End tasks before, or while, they run."),
    "purge": Lazy("tq_celery.cli.purge:purge", "Remove what waits, by queue and tenant."),
    "drain": Lazy("tq_celery.cli.drain:drain", "Move what waits back to the broker's queues."),
    "doctor": Lazy("tq_celery.cli.doctor:doctor", "Check server, scheduler and workers."),
    "verify": Lazy("tq_celery.cli.verify:verify", "Check the books against what is promised."),
    "flower": Lazy("tq_celery.cli.flower:flower", "Run Flower with the Scheduler page."),
    "produce": Lazy("tq_celery.cli.produce:produce", "Offer a workload to a running deployment."),
    "replay": Lazy("tq_celery.cli.replay:replay", "Replay a workload trace as Celery tasks."),
    "demo": Lazy("tq_celery.cli.demo:demo", "See fair scheduling next to stock Celery."),
}

HELP = """Fair scheduling for Celery.

Reads and steers one namespace on a Redis or Valkey server. Every option can be given as an
environment variable, and every command prints JSON with --json.
"""

main = LazyGroup(
    "tq",
    lazy=COMMANDS,
    help=HELP,
    examples=("tq --url redis://localhost:6379/0 status",),
    context_settings={"help_option_names": ["-h", "--help"]},
)
