"""The acknowledgements that reach a stock broker on Redis, read from the server's own MONITOR.

kombu keeps what a worker holds in the hash ``unacked``. An acknowledgement removes a message from
it, and so does its redelivery, which puts the message back into its queue in the same transaction.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from types import TracebackType
from typing import Any

import redis

from bench.experiments.crash.producer import PREFIX

__all__ = ["AckBook", "AckWatch"]

_JOB = re.compile(rf"\b{PREFIX}(\d+)\b")
#: Sent by :class:`AckWatch` to know that everything before it has been seen.
_OVER = "crash-over"


class AckBook:
    """Counts acknowledgements and redeliveries by job from the commands of a server, in order."""

    def __init__(self) -> None:
        self.acked: Counter[int] = Counter()
        self.restored: Counter[int] = Counter()
        self._jobs: dict[str, int] = {}
        self._removed: dict[str, list[str]] = {}

    def feed(self, client: str, command: str) -> None:
        """Take in one command of one client."""
        words = command.split(" ", 3)
        verb = words[0].upper()
        if verb == "HSET" and words[1] == "unacked":
            if found := _JOB.search(words[3]):
                self._jobs[words[2]] = int(found[1])
        elif verb == "HDEL" and words[1] == "unacked":
            self._removed.setdefault(client, []).append(words[2])
        elif verb in ("LPUSH", "RPUSH"):
            self._count(self.restored, client)
        elif verb == "EXEC":
            self._count(self.acked, client)

    def _count(self, counter: Counter[int], client: str) -> None:
        counter.update(self._jobs[tag] for tag in self._removed.pop(client, ()))


class AckWatch:
    """Feeds an :class:`AckBook` from the server at ``port`` while the ``with`` block runs."""

    def __init__(self, port: int) -> None:
        # Nothing may happen for as long as it takes.
        self._client: Any = redis.Redis(port=port, socket_timeout=None)
        self._seen = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="monitor")
        self.book = AckBook()

    def __enter__(self) -> AckBook:
        self._thread.start()
        self._seen.wait(10)
        return self.book

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.echo(_OVER)
        self._thread.join(30)
        self._client.close()

    def _listen(self) -> None:
        with self._client.monitor() as monitor:
            self._seen.set()
            for seen in monitor.listen():
                if seen["command"] == f"ECHO {_OVER}":
                    return
                client = f"{seen['client_address']}:{seen['client_port']}"
                self.book.feed(client, seen["command"])
