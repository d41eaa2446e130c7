"""The JSON API under ``/api/tq/``, behind Flower's authentication, XSRF check and read-only mode.

Every answer is one JSON object; one that is not 200 has the reason in ``error``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from flower.api import BaseApiHandler
from tornado import web

from tq_celery.errors import StoreUnavailableError, TQError
from tq_celery.flower.desk import Desk, Refused
from tq_celery.flower.snapshot import ORDERS, TENANTS

__all__ = ["ACTIONS", "Actions", "Answering", "DeadLetterInfo", "Readings", "Unknown", "reading"]

#: Tenants in an answer unless more are asked for.
SHOWN = 50

#: Path of an action -> method of the desk, and the arguments it takes from the body.
ACTIONS: Mapping[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "dead/requeue": (Desk.requeue, ("entry",)),
    "queues/pause": (Desk.pause_queue, ("queue",)),
    "queues/resume": (Desk.resume_queue, ("queue",)),
    "tenants/pause": (Desk.pause_tenant, ("tenant",)),
    "tenants/resume": (Desk.resume_tenant, ("tenant",)),
    "tenants/weight": (Desk.set_weight, ("tenant", "weight")),
}

#: What a status means where nothing else is said.
REASONS = {401: "not signed in, or no longer: load the page again"}


class Answering(web.RequestHandler):
    """Answers with what the desk says, or with why it cannot, as JSON.

    It stands before Flower's handlers, whose errors are pages and whose login is one as well.
    """

    def initialize(self, desk: Desk) -> None:
        self.desk = desk

    async def answer(self, function: Callable[..., Any], *args: Any) -> None:
        """Run one of the desk's methods in a thread and answer with its result."""
        try:
            document = await self.desk.run(_as_json, function, *args)
        except Refused as refused:
            self.fail(refused.status, refused.reason)
        except StoreUnavailableError as error:
            self.fail(503, f"the server does not answer ({error})")
        except TQError as error:
            self.fail(503, str(error))
        else:
            self.reply(document)

    def fail(self, status: int, reason: str) -> None:
        """Answer with a status and the reason."""
        self.set_status(status)
        self.reply(_as_json(lambda: {"error": reason}))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer with the reason; what went wrong inside is in the log alone."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        said = error.log_message if isinstance(error, web.HTTPError) else None
        self.fail(status_code, str(said or REASONS.get(status_code) or self._reason))

    def get_login_url(self) -> str:
        """Refuse who is not signed in, where a page would lead to the login."""
        raise web.HTTPError(401)

    def reply(self, document: bytes) -> None:
        """Answer with a document."""
        self.set_header("Content-Type", "application/json; charset=UTF-8")
        self.set_header("Cache-Control", "no-store")
        self.finish(document)


class ApiHandler(Answering, BaseApiHandler):
    """Refuses as Flower's own API does, in JSON."""


class Unknown(ApiHandler):
    """Any other path of the API."""

    def prepare(self) -> None:
        super().prepare()
        self.fail(404, f"no such path of the API: {self.request.path}")


class Readings(ApiHandler):
    """GET /api/tq/overview, queues, workers, tenants or dead."""

    @web.authenticated
    async def get(self, word: str) -> None:
        await reading(self, word)


class DeadLetterInfo(ApiHandler):
    """GET /api/tq/dead/ENTRY."""

    @web.authenticated
    async def get(self, entry: str) -> None:
        await self.answer(self.desk.dead_letter, entry)


class Actions(ApiHandler):
    """POST /api/tq/dead/requeue, tenants/pause, ...; arguments are those of a form."""

    @web.authenticated
    async def post(self, word: str) -> None:
        application: Any = self.application
        if application.options.read_only:
            self.fail(403, "Flower is in read-only mode")
            return
        action, names = ACTIONS[word]
        given = [self.get_body_argument(name, "", strip=False) for name in names]
        for name, value in zip(names, given, strict=True):
            if not value:
                self.fail(400, f"{name}: missing; expected in the body of the request")
                return
        await self.answer(action, self.desk, *given)


async def reading(handler: Answering, word: str) -> None:
    """Answer with one part of the snapshot, tenants sorted and cut as the query says."""
    order = handler.get_query_argument("sort", "waiting")
    limit = handler.get_query_argument("limit", str(SHOWN))
    search = handler.get_query_argument("search", "")
    if order not in ORDERS:
        handler.fail(400, f"sort: {order!r} is not allowed; expected {', '.join(ORDERS)}")
    elif not (re.fullmatch("[0-9]{1,4}", limit) and int(limit) <= TENANTS):
        handler.fail(400, f"limit: {limit!r} is not allowed; expected 0 to {TENANTS}")
    else:
        await handler.answer(part, handler.desk, word, order, int(limit), search)


def part(desk: Desk, word: str, order: str, limit: int, search: str) -> dict[str, Any]:
    """Return one part of the snapshot; in a thread."""
    if word == "dead":
        return {"dead": desk.snapshot()["dead"], "entries": desk.dead()}
    snapshot = desk.snapshot()
    if word in ("queues", "workers"):
        return {"now": snapshot["now"], word: snapshot[word]}
    found = [each for each in snapshot["tenants"] if search in each["tenant"]]
    if order == "tenant":
        found.sort(key=lambda each: each["tenant"])
    else:
        found.sort(key=lambda each: (-(each[order] or 0), each["tenant"]))
    tenants = {"tenants": found[:limit], "found": len(found), "more": snapshot["more_tenants"]}
    if word == "tenants":
        return {"now": snapshot["now"], **tenants}
    return {**snapshot, **tenants, "letters": desk.dead()}


def _as_json(function: Callable[..., Any], *args: Any) -> bytes:
    """Return what ``function`` returns as a document; in a thread, for it may be long."""
    return json.dumps(function(*args), ensure_ascii=False, separators=(",", ":")).encode()
