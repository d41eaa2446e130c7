"""Sending when a Django transaction commits, with the options of the moment of the call.

Celery sends at the commit as if the call were made there: in another context, without what was
current at the call. Here tenant, cost, priority and deadline are settled and checked at the call,
and kept. A deadline in seconds still counts from the moment the task is published.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tq_celery.effective import FOUND, Effective, current_request, resolve, take_call
from tq_celery.options import Rules

__all__ = ["OnCommit", "options_of"]


def options_of(task: Any, args: Any, kwargs: Any, options: dict[str, Any]) -> Effective:
    """Return the options of a call of ``task``, and take ours out of ``options``.

    Raises OptionError as a send does, and ValueError for a countdown or ETA that is no time.
    """
    found: Effective | None = options.pop(FOUND, None)
    call = take_call(options)
    if found is not None:
        return found._replace(**call)
    tq = vars(task._get_app()).get("tq")
    rules = task.tq_rules or Rules({}, {})
    if tq is not None:
        tq.publisher.when(options.get("countdown"), options.get("eta"))  # or an error
        rules = tq.routes.rules_of(task.name, task) or rules
        asked = {**options, "task_type": task}
        rules = tq.publisher.with_route(rules, call, task.name, args, kwargs, asked)
    return resolve(
        rules,
        call,
        (args or (), kwargs or {}, options),
        options.get("headers"),
        tq.default if tq is not None else Effective(b"default"),
        request=current_request(),
    )


class OnCommit:
    """The two calls of :class:`celery.contrib.django.task.DjangoTask`, for scheduled tasks."""

    def delay_on_commit(self, *args: Any, **kwargs: Any) -> None:
        """Call ``delay`` when the transaction of the default database commits."""
        self.apply_async_on_commit(args, kwargs)

    def apply_async_on_commit(
        self: Any,
        args: Any = None,
        kwargs: Any = None,
        *rest: Any,
        using: str | None = None,
        **options: Any,
    ) -> None:
        """Call ``apply_async`` when the transaction of database ``using`` commits.

        After a rollback, to a savepoint too, nothing is sent; outside a transaction it is sent at
        once. Tenant, cost, priority and deadline are those of this moment: the ambient tenant, the
        task this is called from. Raises OptionError now; what the send itself raises comes out of
        the commit.
        """
        from django.db import transaction

        send = {**options}
        if vars(self._get_app()).get("tq") is not None:
            seen = args, kwargs
            plain = getattr(self, "_dump_pydantic_arguments", None)
            if plain is not None and options.get("serializer") != "pickle":
                seen = plain(args, kwargs)
            # What the class declares for Celery counts as given at the call there, too.
            send[FOUND] = options_of(self, *seen, {**self._get_exec_options(), **options})
        transaction.on_commit(partial(self.apply_async, args, kwargs, *rest, **send), using=using)
