"""A blocking read in two halves, so that its thread can wait for other things at the same time.

A blocking ``XREADGROUP`` cannot be interrupted by the thread that waits in it. Here the command is
sent (:meth:`SplitRead.start`), the caller waits for the socket with ``select`` next to its own
descriptors, and takes the reply when the socket is readable (:meth:`SplitRead.finish`). Everything
else goes over the client's other connections in the meantime. ``CLIENT UNBLOCK`` ends a read early.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import redis

from tq_celery.settings import Settings
from tq_celery.store.base import LONGEST_BLOCK
from tq_celery.store.client import connect
from tq_celery.store.contract import Delivery
from tq_celery.store.keys import GROUP
from tq_celery.store.worker import RedisWorker, _group_is_gone

__all__ = ["SplitRead"]

Entries = list[tuple[str, bytes, Mapping[bytes, bytes]]]


class SplitRead:
    """One read at a time of the exec streams, on a connection of its own. Of one thread."""

    def __init__(self, store: RedisWorker, settings: Settings) -> None:
        self._store = store
        self._pool = connect(settings.url, blocking=LONGEST_BLOCK / 1000)
        self._connection: Any = None
        self._id = 0
        self._queues: tuple[str, ...] = ()
        self._prefix_length = len(store.keys.of_queue("exec", "").encode())

    @property
    def outstanding(self) -> bool:
        """Whether a reply is awaited."""
        return bool(self._queues)

    def fileno(self) -> int:
        """The socket that becomes readable with the reply."""
        descriptor: int = self._connection._sock.fileno()
        return descriptor

    def start(self, worker: str, queues: Sequence[str], count: int, timeout: int) -> None:
        """Ask for up to ``count`` deliveries per queue, blocking up to ``timeout`` ms.

        Raises StoreUnavailableError; the read is then not outstanding.
        """
        names = [self._store.keys.of_queue("exec", queue) for queue in queues]
        try:
            connection = self._connected()
            connection.send_command(
                "XREADGROUP", "GROUP", GROUP, worker, "COUNT", count,
                "BLOCK", max(1, min(timeout, LONGEST_BLOCK)),
                "STREAMS", *names, *[">"] * len(names),
            )  # fmt: skip
        except (redis.RedisError, OSError) as error:
            self.close()
            raise self._store._wrap("renew", error) from error
        self._queues = tuple(queues)

    def finish(self) -> list[Delivery]:
        """Take the reply and fetch the payloads.

        Raises StoreUnavailableError; entries that the server handed out with a reply that was lost
        are found by :meth:`handed_out`.
        """
        queues, self._queues = self._queues, ()
        try:
            try:
                reply = self._connection.read_response()
            except redis.ResponseError as error:
                if not _group_is_gone(error):
                    raise
                self._store._create_groups("exec", queues)
                return []
            return self._store._with_payloads(self._entries(reply))
        except (redis.RedisError, OSError) as error:
            self.close()
            raise self._store._wrap("renew", error) from error

    def handed_out(self, worker: str, queues: Sequence[str], count: int = 500) -> list[Delivery]:
        """Return up to ``count`` deliveries per queue that the server counts as this worker's."""
        found: Entries = []
        try:
            for queue in queues:
                name: Any = self._store.keys.of_queue("exec", queue)
                try:
                    reply: Any = self._store.client.xreadgroup(
                        GROUP, worker, {name: "0"}, count=count
                    )
                except redis.ResponseError as error:
                    if not _group_is_gone(error):
                        raise
                    self._store._create_groups("exec", [queue])
                    continue
                found += [
                    (queue, entry, fields)
                    for _, entries in reply or ()
                    for entry, fields in entries
                    if fields
                ]
            return self._store._with_payloads(found)
        except (redis.RedisError, OSError) as error:
            raise self._store._wrap("renew", error) from error

    def unblock(self) -> None:
        """Make the outstanding read return now; never raises."""
        if self._queues and self._id:
            with contextlib.suppress(redis.RedisError, OSError):
                client: Any = self._store.client
                client.execute_command("CLIENT", "UNBLOCK", self._id)

    def close(self) -> None:
        """Drop the connection; an outstanding read is abandoned."""
        self._queues = ()
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.disconnect()
            with contextlib.suppress(Exception):
                self._pool.connection_pool.release(connection)

    def _connected(self) -> Any:
        if self._connection is None:
            self._connection = self._pool.connection_pool.get_connection()
            self._connection.connect()
            self._id = 0
            # A server that denies CLIENT to this user ends its reads by their timeout alone.
            self._connection.send_command("CLIENT", "ID")
            with contextlib.suppress(redis.ResponseError):
                self._id = int(self._connection.read_response())
        return self._connection

    def _entries(self, reply: Any) -> Entries:
        cut = self._prefix_length
        return [
            (stream[cut:].decode(), entry, dict(zip(fields[::2], fields[1::2], strict=True)))
            for stream, entries in reply or ()
            for entry, fields in entries
            if fields
        ]
