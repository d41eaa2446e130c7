"""One arm of an experiment: the same Celery application, stock or with its task scheduled.

The arm travels to worker processes in one environment variable, so that the producer and the
workers build the same application.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from celery import Celery

__all__ = ["POLICIES", "STOCK", "TASK", "VARIABLE", "Arm", "build_app"]

#: The arm without a scheduler: Celery as it comes, on the same server.
STOCK = "stock"

#: What ``--policy`` accepts.
POLICIES = (STOCK, "fifo", "priority", "edf", "wfq", "none")

#: Environment variable that carries the arm to a worker process.
VARIABLE = "REPLAY_ARM"

#: Name of the one task that is replayed.
TASK = "replay.nap"


@dataclass(frozen=True, slots=True)
class Arm:
    """What is run and where: ``policy`` is ``stock`` or the scheduler's policy.

    ``url`` is the server, both as Celery's broker and as the scheduler's; ``name`` keeps this run
    apart from everything else on it; workers write what they do to files in ``directory``.
    """

    policy: str
    url: str
    name: str
    directory: str
    slots: int = 16

    @property
    def scheduled(self) -> bool:
        """Whether tasks pass through a scheduler."""
        return self.policy != STOCK

    @property
    def key_prefix(self) -> str:
        """What every key of Celery's own broker starts with."""
        return f"{self.name}:"

    def environ(self) -> dict[str, str]:
        """Return the variable for a worker process."""
        return {VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] = os.environ) -> Arm:
        """Return the arm a worker was started for."""
        return cls(**json.loads(environ[VARIABLE]))


def build_app(arm: Arm) -> tuple[Celery, Any]:
    """Return the application and its task, called with ``(job, seconds, tenant, cost)``.

    Both arms acknowledge late and reserve no more than they can run, as Celery's documentation
    advises for tasks that take a while: neither holds back work behind a busy slot.
    """
    from tq_celery.replay.nap import nap

    app = Celery("replay", set_as_current=False)
    app.conf.update(
        broker_url=arm.url,
        broker_connection_retry_on_startup=True,
        broker_transport_options={"global_keyprefix": arm.key_prefix},
        task_default_queue="replay",
        task_acks_late=True,
        task_ignore_result=True,
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
    )
    if not arm.scheduled:
        return app, app.task(name=TASK)(nap)
    from tq_celery.app import TQ

    tq = TQ(app, arm.url, namespace=arm.name, policy=arm.policy)
    return app, tq.task(name=TASK, tenant="tenant", cost="cost")(nap)
