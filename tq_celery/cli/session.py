"""What a command works with: its settings and its connection, made when first asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import click

from tq_celery.cli.groups import CommandError
from tq_celery.errors import SchemaError

if TYPE_CHECKING:
    from tq_celery.settings import Settings
    from tq_celery.store.inspect import Inspector
    from tq_celery.store.redis_store import RedisStore

__all__ = ["Session", "with_session"]

#: Seconds a command waits for the server's answer.
TIMEOUT = 5.0

P = ParamSpec("P")
R = TypeVar("R")


class Session:
    """The global options of one invocation and what follows from them."""

    def __init__(self, ctx: click.Context) -> None:
        self.given: dict[str, Any] = ctx.meta.get("tq.given", {})
        self._celery_app = _celery_app(ctx)

    @property
    def json(self) -> bool:
        """Whether the command prints JSON."""
        return bool(self.given.get("json"))

    @cached_property
    def app(self) -> Any:
        """The Celery application, ``None`` without ``-A``."""
        name = self.given.get("app")
        return _find_app(name) if name else self._celery_app

    def load(self, **flags: Any) -> Settings:
        """Return the settings; ``flags`` that are not ``None`` win over every other source."""
        from tq_celery.settings import Settings

        explicit = {name: value for name, value in flags.items() if value is not None}
        for name in ("url", "namespace"):
            if self.given.get(name) is not None:
                explicit[name] = self.given[name]
        if self.app is None:
            return Settings.load(toml=self.given.get("config"), **explicit)
        # What the application gave TQ() in code is known only there.
        attached = vars(self.app).get("tq")
        return Settings.load(
            self.app.conf,
            toml=self.given.get("config"),
            defaults={"namespace": self.app.main or "celery"},
            **{**(attached.explicit if attached is not None else {}), **explicit},
        )

    @cached_property
    def settings(self) -> Settings:
        """The settings of a command that has no flags for them."""
        return self.load()

    @cached_property
    def inspector(self) -> Inspector:
        """Read-only views of the namespace."""
        from tq_celery.store.client import connect
        from tq_celery.store.inspect import Inspector
        from tq_celery.store.keys import Keys

        return Inspector(connect(self.settings.url, timeout=TIMEOUT), Keys(self.settings.namespace))

    @cached_property
    def store(self) -> RedisStore:
        """The namespace's store, for what an operator writes.

        Raises SchemaError when another major version wrote the namespace.
        """
        from tq_celery.store.operator import SCHEMA
        from tq_celery.store.redis_store import RedisStore

        stored = self.inspector.config().get("schema", str(SCHEMA))
        if stored != str(SCHEMA):
            raise SchemaError(
                "schema",
                f"namespace {self.settings.namespace!r} has schema {stored}; "
                f"this version works with {SCHEMA}",
            )
        return RedisStore.open(self.settings)


def _find_app(name: str) -> Any:
    from celery.app.utils import find_app

    try:
        return find_app(name)
    except ModuleNotFoundError as error:
        raise CommandError(f"--app {name}: there is no module named {error.name!r}") from error
    except AttributeError as error:
        raise CommandError(f"--app {name}: no Celery application found there ({error})") from error
    except Exception as error:
        # The application is foreign code; whatever it raises is the answer to "why not".
        raise CommandError(f"--app {name}: {type(error).__name__}: {error}") from error


def _celery_app(ctx: click.Context) -> Any:
    """The app that ``celery -A proj tq`` runs under; ``None`` when no app was named there."""
    root = ctx.find_root()
    return root.obj.app if root.params.get("app") and hasattr(root.obj, "app") else None


def with_session(function: Callable[Concatenate[Session, P], R]) -> Callable[P, R]:
    """Give a command's function the session as its first argument."""

    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(Session(click.get_current_context()), *args, **kwargs)

    return update_wrapper(wrapper, function)
