"""A heartbeat that finds no broker is kept, and holds nothing up."""

from __future__ import annotations

import threading
from typing import Any

from celery import Celery
from celery.worker.heartbeat import Heart
from kombu.asynchronous.timer import Timer

from tq_celery.worker.heartbeats import never_wait


def test_a_heartbeat_without_a_broker_returns_and_is_kept(make_server: Any) -> None:
    """celery/celery #8417: the process hung because its connection did.

    Seen to hang without the guard.
    """
    server = make_server("valkey")
    app = Celery("beats", broker=server.url, set_as_current=False)
    with app.connection_for_write() as connection:
        dispatcher = app.events.Dispatcher(connection, hostname="w@here")
        never_wait(dispatcher)
        never_wait(dispatcher)  # the step starts again with each loss of the broker
        heart = Heart(Timer(), dispatcher, interval=2.0)
        heart._send("worker-heartbeat")
        assert not dispatcher._outbound_buffer
        server.kill()
        beat = threading.Thread(target=heart._send, args=("worker-heartbeat",), daemon=True)
        beat.start()
        beat.join(10)
        assert not beat.is_alive()
        assert [kept[0]["type"] for kept in dispatcher._outbound_buffer] == ["worker-heartbeat"]
        dispatcher.enabled = False
