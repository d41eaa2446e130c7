"""A Redis result backend whose waiters miss no result, and which no send waits for.

**Subscribing.** Celery's backend subscribes to a result when its task is sent. To do so it
connects, with retries of its own, for as long as its server is away or forever, whatever the
deadline of the call (celery/celery #4296). Here it subscribes when somebody waits for the result.

**Looking.** The one who waits subscribes and then looks whether the result is there already; but on
two connections, and a server may serve the second before the first. A worker that stores the result
between the two is heard by nobody, and ``get()`` never returns. So the result is looked for once
more when the server has confirmed the subscription. From then on it tells of every change.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from celery import states

from tq_celery.submit import SubmitProducer

__all__ = ["adjust_backends", "miss_no_result"]


def adjust_backends(app: Any, adjust: Callable[[Any], None]) -> None:
    """Call ``adjust`` with every backend that the application makes, and with the one it has.

    The same function again changes nothing.
    """
    made = app._get_backend
    if not isinstance(made, _Adjusting):
        made = app._get_backend = _Adjusting(made)
    if adjust not in made.adjustments:
        made.adjustments.append(adjust)
        if app._backend is not None:
            adjust(app._backend)


class _Adjusting:
    """The application's ``_get_backend``, with adjustments to what it makes."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self.adjustments: list[Callable[[Any], None]] = []

    def __call__(self) -> Any:
        backend = self._make()
        for adjust in self.adjustments:
            adjust(backend)
        return backend


def miss_no_result(backend: Any) -> None:
    """Adjust a Redis backend as the module says; any other stays as it is."""
    redis = sys.modules.get("celery.backends.redis")
    if redis is None or not isinstance(backend, redis.RedisBackend):
        return
    subscribe, create_client = backend.on_task_call, backend._create_client

    def on_task_call(producer: Any, task_id: str) -> None:
        if not isinstance(producer, SubmitProducer):
            subscribe(producer, task_id)

    def client_that_looks(**params: Any) -> Any:
        client = create_client(**params)
        make = client.pubsub

        def pubsub(**options: Any) -> Any:
            made = make(**options)
            made.handle_message = _Looking(backend, made)
            return made

        client.pubsub = pubsub
        return client

    backend.on_task_call = on_task_call
    backend._create_client = client_that_looks


class _Looking:
    """What a subscription's connection does with each message, and a look after a confirmation."""

    def __init__(self, backend: Any, pubsub: Any) -> None:
        self._backend = backend
        self._handle = pubsub.handle_message

    def __call__(self, response: Any, *args: Any, **options: Any) -> Any:
        if isinstance(response, list) and response[0] in (b"subscribe", "subscribe"):
            self._look(response[1])
        return self._handle(response, *args, **options)

    def _look(self, channel: Any) -> None:
        """Tell who still waits for the result, if it is there; raises what the client raises."""
        backend = self._backend
        if channel not in backend.result_consumer.subscribed_to:
            return
        stored = backend.get(channel)
        if stored:
            meta = backend.decode_result(stored)
            if meta["status"] in states.READY_STATES:
                backend.result_consumer.on_state_change(meta, None)
