"""The Scheduler page, its data, and Flower's Broker page with the true lengths of queues."""

from __future__ import annotations

from typing import Any

from flower.api.tasks import GetQueueLengths
from flower.views import BaseHandler
from flower.views.broker import BrokerView
from tornado import web

from tq_celery.errors import TQError
from tq_celery.flower.api import Answering, reading
from tq_celery.flower.desk import Desk
from tq_celery.flower.lengths import merged
from tq_celery.flower.loader import VERSIONS
from tq_celery.logs import Log

__all__ = ["Broker", "QueueLengths", "SchedulerData", "SchedulerPage"]

log = Log("tq_celery.flower")


class SchedulerPage(BaseHandler):
    """The page itself; its script asks for the data again and again."""

    def initialize(self, desk: Desk) -> None:
        self.desk = desk

    @web.authenticated
    def get(self) -> None:
        options = self.application.options
        self.render(
            "scheduler.html",
            namespace=self.desk.settings.namespace,
            read_only=options.read_only,
            autorefresh=options.auto_refresh,
            versions=VERSIONS,
        )


class SchedulerData(Answering, BaseHandler):
    """What the page shows; open to whom the page is, as the data of Flower's own pages is."""

    @web.authenticated
    async def get(self) -> None:
        await reading(self, "overview")


class _Lengths(BaseHandler):
    """Queues of the broker and of the namespace together."""

    def initialize(self, desk: Desk) -> None:
        self.desk = desk

    async def lengths(self) -> list[dict[str, Any]]:
        """Return a row per queue; raises TQError when the scheduler's server does not answer."""
        ours = (await self.desk.run(self.desk.snapshot))["queues"]
        return merged(await self.of_broker(), ours)

    async def of_broker(self) -> list[dict[str, Any]]:
        """Return the broker's own rows; none for a broker that Flower cannot ask."""
        try:
            broker = self.get_broker()
        except web.HTTPError:
            return []
        try:
            return list(await broker.queues(self.get_active_queue_names()))
        except Exception as error:  # noqa: BLE001 - as Flower does: whatever its broker's client raises
            log.error("broker's queues cannot be counted", error=error)
            return []


class Broker(_Lengths, BrokerView):
    """GET /broker."""

    @web.authenticated
    async def get(self) -> None:
        url = self.application.broker_uri
        try:
            rows = await self.lengths()
        except TQError as error:
            rows = await self.of_broker()
            url += f" (without scheduled tasks: {error})"
        self.render("broker.html", broker_url=url, queues=rows)


class QueueLengths(_Lengths, GetQueueLengths):
    """GET /api/queues/length."""

    @web.authenticated
    async def get(self) -> None:
        try:
            rows = await self.lengths()
        except TQError as error:
            raise web.HTTPError(503, f"scheduled tasks cannot be counted: {error}") from error
        self.write({"active_queues": rows})
