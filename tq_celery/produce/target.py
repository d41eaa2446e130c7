"""Where a workload goes: an application with the task, its namespace and a queue."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from tq_celery.errors import ProduceError
from tq_celery.produce.build import QUEUE, build
from tq_celery.produce.offer import Offer
from tq_celery.produce.task import NAME
from tq_celery.settings import Settings
from tq_celery.store.client import safe_url
from tq_celery.store.inspect import Inspector
from tq_celery.workloads.work import Work

__all__ = ["Target", "target_of"]


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """An application, the queue that its task is routed to, and the options of each call.

    ``own`` tells that it is the one of :mod:`tq_celery.produce.app`.
    """

    app: Any
    queue: str
    options: dict[str, Any]
    own: bool = False

    def sender(self, offer: Offer) -> Callable[[Sequence[Work]], None]:
        """Return what submits tasks of the offer; it raises BulkError."""
        tq, task = self.app.tq, self.app.tasks[NAME]

        def send(works: Sequence[Work]) -> None:
            tq.submit_many(offer.call(task, work, self.options) for work in works)

        return send

    def shortcomings(self, inspector: Inspector) -> list[str]:
        """Return a sentence for each thing without which tasks are taken and not run."""
        found = []
        if inspector.leader().owner is None:
            found.append(
                "no scheduler leads this namespace: tasks wait until one is started (tq scheduler)"
            )
        serving = [w for w in inspector.workers() if w.remaining > 0 and self.queue in w.queues]
        if not serving:
            found.append(
                f"no worker serves queue {self.queue!r}: tasks wait until one is started "
                f"({self._worker()})"
            )
        return found

    def _worker(self) -> str:
        if self.own:
            queues = "" if self.queue == QUEUE else f" -Q {self.queue}"
            return f"celery -A tq_celery.produce.app worker --pool threads{queues}"
        return f"celery -A ... worker -Q {self.queue}"


def target_of(app: Any, settings: Settings, queue: str | None) -> Target:
    """Return the target: ``app``, or without one an application made for ``settings``.

    ProduceError when the application cannot take a workload, or is not where the settings are.
    """
    if app is None:
        given = {name: getattr(settings, name) for name in Settings.names()}
        # A pattern may match the task and name a parameter that it does not have.
        given["routes"] = {}
        return Target(build(queue or QUEUE, **given), queue or QUEUE, {}, own=True)
    tq = vars(app).get("tq")
    if tq is None:
        raise ProduceError(f"application {app.main!r} has no TQ; without -A one is made here")
    app.finalize(auto=True)
    if NAME not in app.tasks:
        raise ProduceError(
            f"application {app.main!r} has no task {NAME!r}; add to it: "
            "from tq_celery.produce import register; register(tq)"
        )
    own = tq.settings
    if (own.url, own.namespace) != (settings.url, settings.namespace):
        raise ProduceError(
            f"application {app.main!r} sends to namespace {own.namespace!r} on "
            f"{safe_url(own.url)}, not to {settings.namespace!r} on {safe_url(settings.url)}; "
            "leave out --url and --namespace, or -A"
        )
    options = {} if queue is None else {"queue": queue}
    routed = app.amqp.router.route(dict(options), NAME)["queue"]
    return Target(app, getattr(routed, "name", str(routed)), options)
