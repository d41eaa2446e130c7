"""Points an application at other servers for a while, whatever it has opened before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery import _state
from kombu import pools

from tq_celery.settings import Settings
from tq_celery.testing.recorder import tq_of

__all__ = ["pointed_at"]

#: What a TQ works out once from its settings.
_OF_SETTINGS = ("settings", "producers", "limits", "default", "routes")
#: What an application works out once from its configuration.
_OF_CONF = ("control",)


@contextmanager
def pointed_at(
    app: Any, settings: dict[str, Any], broker: str | None, backend: str | None
) -> Iterator[Settings]:
    """Give ``app`` these settings, broker and result backend; afterwards it is as it was.

    ``None`` leaves broker or backend as configured.
    """
    tq = tq_of(app)
    wanted = {"broker_url": broker, "result_backend": backend}
    conf = {name: value for name, value in wanted.items() if value is not None}
    if broker is not None:
        conf |= {"broker_read_url": broker, "broker_write_url": broker}
    before = {name: app.conf.get(name) for name in conf}
    explicit = dict(tq.explicit)
    ours = {name: vars(tq).pop(name) for name in _OF_SETTINGS if name in vars(tq)}
    theirs = {name: vars(app).pop(name) for name in _OF_CONF if name in vars(app)}
    state = _state.default_app, _state._tls.current_app
    app.conf.update(conf)
    kept = _forget(app)
    try:
        tq.explicit.update(settings)
        yield tq.settings
    finally:
        if "producers" in vars(tq):
            tq.producers.close()
        _disconnect(app)
        _forget(app)
        tq.explicit.clear()
        tq.explicit.update(explicit)
        for name in _OF_SETTINGS:
            vars(tq).pop(name, None)
        for name in _OF_CONF:
            vars(app).pop(name, None)
        vars(tq).update(ours)
        vars(app).update(theirs)
        app.conf.update(before)
        app._pool, app._backend_cache = kept
        _state.default_app, _state._tls.current_app = state


def _forget(app: Any) -> tuple[Any, Any]:
    """Take connections and backend away from the application; returns what it had."""
    kept = app._pool, app._backend_cache
    app._pool = app._backend_cache = None
    vars(app._local).pop("backend", None)
    if "amqp" in vars(app):
        app.amqp._producer_pool = None
    return kept


def _disconnect(app: Any) -> None:
    """Close what was opened while the application was pointed elsewhere."""
    backend = app._backend
    if backend is not None:
        # a result that is collected later would connect again, to take itself off the list
        backend.remove_pending_result = lambda result: result
        consumer = getattr(backend, "result_consumer", None)
        if consumer is not None:
            consumer.stop()
        pool = getattr(vars(backend).get("client"), "connection_pool", None)
        if pool is not None:
            pool.disconnect()
    if "amqp" in vars(app) and app.amqp._producer_pool is not None:
        _close_pool(pools.producers, app.amqp._producer_pool)
    if app._pool is not None:
        _close_pool(pools.connections, app._pool)


def _close_pool(group: Any, pool: Any) -> None:
    """Close a pool and let kombu forget it, which hands out closed ones as well."""
    for key in [key for key, each in group.items() if each is pool]:
        dict.pop(group, key)
    pool.force_close_all()
