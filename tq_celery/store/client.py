"""Clients of the server: every connection of the library is made here.

Bytes in, bytes out, RESP2. A client for blocking reads is its own client, whose sockets wait longer
than the read blocks and which never repeats a command: with redis-py's defaults a blocking read on
an idle stream is cut off, and silently sent again and again (redis/redis-py #2807).
"""

from __future__ import annotations

import os
from typing import Any

import redis
from redis.backoff import ExponentialBackoff
from redis.credentials import UsernamePasswordCredentialProvider
from redis.retry import Retry
from redis.sentinel import Sentinel

from tq_celery.errors import SettingsError
from tq_celery.setting_checks import safe_url
from tq_celery.store.urls import Target, parse_url

__all__ = ["Clients", "close_idle", "connect", "safe_url"]

#: What a client with retries repeats after; older redis-py leaves a refused connection an OSError.
FAILURES = (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError, OSError)
#: What says that no server answers; the last one, that something else does.
AWAY = (*FAILURES, redis.exceptions.InvalidResponse)

#: Longest pause between two tries of a client with retries, and the first one; seconds.
BACKOFF_CAP, BACKOFF_BASE = 1.0, 0.01


def connect(
    url: str, *, timeout: float = 5.0, blocking: float = 0.0, retries: int = 0
) -> redis.Redis:
    """Return a client; nothing is sent before its first command.

    ``timeout`` bounds connecting and each reply, in seconds. ``blocking`` is the longest time a
    command of this client blocks on the server: its replies get that much more time, and it never
    repeats a command, whatever ``retries`` says. ``retries`` repeats a command that failed on the
    connection; all scripts of the library may be repeated. Raises SettingsError for a bad URL, and
    for a file named in it that cannot be read.
    """
    target = parse_url(url)
    for name in ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile"):
        file = target.options.get(name)
        if file and not os.access(file, os.R_OK):
            # redis-py says "connecting to host:port: no such file".
            raise SettingsError(f"{name} of tq_url", file, "a file that can be read")
    retry = Retry(
        ExponentialBackoff(cap=BACKOFF_CAP, base=BACKOFF_BASE),
        0 if blocking else retries,
        supported_errors=FAILURES,
    )
    common: dict[str, Any] = {
        "db": target.db,
        "credential_provider": _credentials(target.username, target.password),
        "protocol": 2,
        "decode_responses": False,
        "socket_timeout": timeout + blocking,
        "socket_connect_timeout": timeout,
        "retry": retry,
        **target.options,
    }
    if target.path:
        del common["socket_connect_timeout"]
        return redis.Redis(unix_socket_path=target.path, **common)
    common["socket_keepalive"] = True
    if target.master:
        return _master_of(target, common)
    host, port = target.hosts[0]
    return redis.Redis(host=host, port=port, ssl=target.tls, **common)


def close_idle(client: redis.Redis, error: Exception) -> None:
    """After a reply that did not come, close the connections that are not in use.

    Whatever cut one off without a word, such as a server that lost its power, has cut off them all:
    without this each would cost some thread another timeout.
    """
    if isinstance(error, redis.exceptions.TimeoutError):
        client.connection_pool.disconnect(inuse_connections=False)


class Clients:
    """The clients of one URL in this process, made on demand.

    After a fork the child gets clients of its own and never touches its parent's sockets. Safe
    among threads: two that ask at once may both make a client, and one of them is kept.
    """

    def __init__(self, url: str, *, timeout: float = 5.0) -> None:
        parse_url(url)
        self._url = url
        self._timeout = timeout
        self._pid = os.getpid()
        self._clients: dict[tuple[float, int], redis.Redis] = {}

    def get(self, *, blocking: float = 0.0, retries: int = 0) -> redis.Redis:
        """Return this process's client with these properties; see :func:`connect`."""
        if self._pid != os.getpid():
            self._clients = {}
            self._pid = os.getpid()
        wanted = (blocking, retries)
        client = self._clients.get(wanted)
        if client is None:
            made = connect(self._url, timeout=self._timeout, blocking=blocking, retries=retries)
            client = self._clients.setdefault(wanted, made)
        return client

    def close(self) -> None:
        """Close this process's connections; the next :meth:`get` opens new ones."""
        clients, self._clients = self._clients, {}
        if self._pid == os.getpid():
            for client in clients.values():
                client.close()

    def __repr__(self) -> str:
        return f"<Clients of {safe_url(self._url)}>"


def _credentials(
    username: str | None = None, password: str | None = None
) -> UsernamePasswordCredentialProvider | None:
    """Wrap the login: older redis-py prints the plain arguments of a connection in its ``repr``."""
    if username is None and password is None:
        return None
    return UsernamePasswordCredentialProvider(username, password)


def _master_of(target: Target, common: dict[str, Any]) -> redis.Redis:
    """Return a client that asks the sentinels for the master whenever it connects."""
    asking: dict[str, Any] = {
        "credential_provider": _credentials(**target.sentinel_login),
        "protocol": 2,
        "socket_timeout": common["socket_connect_timeout"],
        "socket_connect_timeout": common["socket_connect_timeout"],
        "retry": common["retry"],
    }
    if target.tls:
        tls = {name: value for name, value in target.options.items() if name.startswith("ssl_")}
        asking |= {"ssl": True, **tls}
        common = {**common, "ssl": True}
    sentinels = Sentinel(list(target.hosts), sentinel_kwargs=asking)  # type: ignore[no-untyped-call]
    client: redis.Redis = sentinels.master_for(target.master, **common)  # type: ignore[no-untyped-call]
    return client
