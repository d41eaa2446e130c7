"""What a server says about itself, for checking a deployment."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import redis
from redis import exceptions

from tq_celery.errors import StoreError
from tq_celery.store.inspect import reading
from tq_celery.store.keys import Keys
from tq_celery.store.scripts import SCRIPTS, call

__all__ = ["KEY_TYPES", "ServerFacts", "foreign_keys", "server_facts"]

#: Type of every namespace-wide key.
KEY_TYPES = {
    "config": "hash",
    "leader": "string",
    "epoch": "string",
    "fence": "string",
    "leadership": "stream",
    "standbys": "zset",
    "wake": "stream",
    "queues": "set",
    "groups": "hash",
    "payload": "hash",
    "ingress": "stream",
    "cursor": "string",
    "holes": "string",
    "ids": "hash",
    "revoked": "zset",
    "revoked_stamps": "zset",
    "draining": "hash",
    "delayed": "zset",
    "virtual": "hash",
    "workers": "zset",
    "announcements": "hash",
    "live": "hash",
    "running": "hash",
    "weights": "hash",
    "caps": "hash",
    "paused_tenants": "set",
    "paused_queues": "set",
    "changes": "hash",
    "counters": "hash",
    "service": "hash",
    "accounted": "string",
    "done:new": "hash",
    "done:old": "hash",
    "results": "stream",
    "dead": "stream",
    "starved": "string",
}


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Facts of one server; ``None`` where it would not say (managed servers hide settings).

    Without INFO, which some users may not call, only product, version, role and mode are known.
    ``skew`` is the server's clock minus ours in ms, give or take half of ``round_trip`` ms.
    """

    product: str
    version: tuple[int, ...]
    role: str
    replicas: int
    eviction: str | None
    aof: bool | None
    appendfsync: str | None
    snapshots: bool | None
    saving_fails: bool
    min_replicas: int | None
    max_lag: int | None
    used_memory: int
    max_memory: int
    skew: float
    round_trip: float
    scripts: str = ""
    cluster: bool = False


def server_facts(client: redis.Redis, keys: Keys) -> ServerFacts:
    """Ask the server about itself; raises StoreError when it does not answer.

    A server can answer a PING and still refuse every script, so a real one is run: ``scripts`` is
    what it said, empty when it ran.
    """
    info = _info(client)
    product = "valkey" if info.get("server_name") == "valkey" else "redis"
    version = str(info.get(f"{product}_version") or info.get("redis_version", "0"))
    aof = info.get("aof_enabled")
    minimum, save = _setting(client, "min-replicas-to-write"), _setting(client, "save")
    lag = _setting(client, "min-replicas-max-lag")
    skew, round_trip = _clock(client)
    return ServerFacts(
        product=product,
        version=tuple(int(part) for part in version.split(".") if part.isdigit()),
        role=str(info.get("role", "")),
        replicas=int(info.get("connected_slaves", 0)),
        eviction=info.get("maxmemory_policy") or _setting(client, "maxmemory-policy"),
        aof=None if aof is None else bool(int(aof)),
        appendfsync=_setting(client, "appendfsync"),
        snapshots=None if save is None else bool(save),
        saving_fails="err"
        in (info.get("rdb_last_bgsave_status"), info.get("aof_last_write_status")),
        min_replicas=None if minimum is None else int(minimum),
        max_lag=None if lag is None else int(lag),
        used_memory=int(info.get("used_memory", 0)),
        max_memory=int(info.get("maxmemory", 0)),
        skew=skew,
        round_trip=round_trip,
        scripts=_script_refusal(client, keys),
        cluster=info.get("redis_mode") == "cluster",
    )


def _info(client: redis.Redis) -> dict[str, Any]:
    """Return what INFO says; what HELLO says to a user who may not ask."""
    with reading("info"):
        try:
            return dict(client.info())
        except exceptions.NoPermissionError:
            told: Any = client.execute_command("HELLO", 2)  # type: ignore[no-untyped-call]
    words = [each.decode() if isinstance(each, bytes) else each for each in told]
    hello = dict(zip(words[::2], words[1::2], strict=True))
    return {
        "server_name": hello.get("server"),
        f"{hello.get('server')}_version": hello.get("version"),
        "role": hello.get("role"),
        "redis_mode": hello.get("mode"),
    }


def _script_refusal(client: redis.Redis, keys: Keys) -> str:
    """Run a script that reads; return the server's refusal."""
    try:
        call(client, SCRIPTS["due"], keys.prefix, (1,))
    except StoreError as error:
        return str(error)
    return ""


def foreign_keys(client: redis.Redis, keys: Keys) -> dict[str, str]:
    """Return keys of the namespace that have a type we never give them, with that type."""
    pipe = client.pipeline(transaction=False)
    for word in KEY_TYPES:
        pipe.type(keys.name(word))
    with reading("type"):
        found = [raw.decode() for raw in pipe.execute()]
    return {
        keys.name(word): actual
        for (word, expected), actual in zip(KEY_TYPES.items(), found, strict=True)
        if actual not in ("none", expected)
    }


def _setting(client: redis.Redis, name: str) -> str | None:
    """Read one server setting; managed servers refuse, which is no fault."""
    try:
        found: Any = client.config_get(name)
    except exceptions.ResponseError:
        return None
    for value in found.values():
        return value.decode() if isinstance(value, bytes) else str(value)
    return None


def _clock(client: redis.Redis) -> tuple[float, float]:
    """Return the clock difference and the round trip in ms, of the fastest of three questions."""
    best: tuple[float, float] | None = None
    for _ in range(3):
        begun = time.monotonic()
        with reading("time"):
            answer: Any = client.time()
        round_trip = (time.monotonic() - begun) * 1000
        server = int(answer[0]) * 1000 + int(answer[1]) / 1000
        skew = server - (time.time() * 1000 - round_trip / 2)
        if best is None or round_trip < best[1]:
            best = (skew, round_trip)
    assert best is not None
    return best
