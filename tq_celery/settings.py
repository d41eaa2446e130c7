"""Settings: one validated, frozen object, the same for applications, workers and schedulers.

Sources, later wins: defaults, a TOML file (schedulers and commands only), ``app.conf.tq_*``,
``TQ_*`` in the environment, explicit arguments. A name that nobody knows is an error which says
what was probably meant; every value is checked where it comes in, so a typing mistake fails at the
start of a process and not on a Sunday.

Policy, ``order_within``, ``ageing``, ``max_running`` live in the namespace: the settings only seed
an empty one. Durations are seconds; text may carry a unit (``30s``, ``500ms``, ``5m``, ``1h``).
"""

from __future__ import annotations

import dataclasses
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlencode

from tq_celery import setting_checks as check
from tq_celery.errors import SettingsError
from tq_celery.logs import FORMATS
from tq_celery.setting_checks import Check, did_you_mean

__all__ = [
    "ORDERS_WITHIN",
    "POLICIES",
    "Settings",
]

#: Names of the policies that can be chosen.
POLICIES: Final = ("fifo", "priority", "edf", "wfq", "none")

#: What may decide between two tasks of one tenant under ``wfq``.
ORDERS_WITHIN: Final = ("arrival", "priority", "deadline")

#: ``TQ_<word>_*`` in the environment belongs to commands, tests and benches, not to settings.
_FOREIGN_WORDS = (
    "app bench cancel config demo dlq doctor drain explain flower json log policy produce purge "
    "queues replay scheduler status tenants test top verify"
).split()

#: What container platforms set for every service named ``tq``.
_SERVICE_LINK = re.compile(r"TQ_(.*_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_\w+)?)")

_YEAR = 365 * 86_400


def _setting(default: Any, allowed: Check, **options: Any) -> Any:
    return field(default=default, metadata={"check": allowed}, **options)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings, checked. Raises SettingsError naming the field, its value and the range."""

    #: Where the namespace lives; see the forms allowed. Kept out of ``repr``: it may hold a secret.
    url: str = _setting("redis://localhost:6379/0", check.url, repr=False)
    #: TLS options of every client, named as in Celery's ``broker_use_ssl``; those in the URL win.
    ssl: Mapping[str, object] = field(
        default_factory=dict, metadata={"check": check.ssl}, hash=False
    )
    #: Names the keys on the server; two applications that share it share their queues.
    namespace: str = _setting(
        "celery", check.text(r"[^{}\s\x00-\x1f]+", 128, "1 to 128 bytes without braces or blanks")
    )
    #: What decides which task is next; seeds an empty namespace.
    policy: str = _setting("wfq", check.word(POLICIES))
    #: What decides between tasks of one tenant under wfq; seeds an empty namespace.
    order_within: str = _setting("arrival", check.word(ORDERS_WITHIN))
    #: Seconds of waiting that weigh as much as one level of priority, wherever priority decides;
    #: None = priority alone decides. Seeds an empty namespace.
    ageing: float | None = _setting(None, check.seconds(0.001, 1e7, none="strict order"))
    #: Seconds without a sign of life after which a worker's tasks run elsewhere.
    lease: float = _setting(30.0, check.seconds(0.5, 86_400))
    #: Seconds without renewal after which another scheduler takes over.
    leader_ttl: float = _setting(2.0, check.seconds(0.2, 60))
    #: Replicas of the server that must have a grant of the lease before a scheduler leads by it.
    leader_replicas: int = _setting(0, check.whole(0, 100))
    #: Lost deliveries of one task: the one that reaches this number buries it.
    delivery_budget: int = _setting(5, check.whole(1, 1_000))
    #: Seconds for which a settled task is remembered, so that a repeat is refused.
    done_memory: float = _setting(3_600.0, check.seconds(0, _YEAR))
    #: Settled tasks remembered at most; about 100 bytes each.
    done_max: int = _setting(1_000_000, check.whole(0))
    #: Waiting tasks allowed in the namespace; one more is refused where it is sent.
    max_pending: int | None = _setting(None, check.whole(1, optional=True))
    #: Waiting tasks allowed in one queue.
    max_pending_queue: int | None = _setting(None, check.whole(1, optional=True))
    #: Waiting tasks allowed of one tenant.
    max_pending_tenant: int | None = _setting(None, check.whole(1, optional=True))
    #: Bytes of one message.
    max_payload: int = _setting(1_048_576, check.whole(1, 512 * 1_048_576))
    #: Seconds a call such as ``delay()`` may take before it gives up.
    publish_timeout: float = _setting(5.0, check.seconds(0.05, 3_600))
    #: What a call does when the scheduler's server certainly did not get its task.
    on_unavailable: str = _setting("raise", check.word(("raise", "broker")))
    #: Share of calls, by task id, that goes through the scheduler; the others go to the broker.
    fraction: float = _setting(1.0, check.number(0, 1))
    #: Tenant of tasks that name none.
    default_tenant: str = _setting("default", check.text(r".+", 256, "1 to 256 bytes of text"))
    #: Tasks moved by one script call.
    batch: int = _setting(256, check.whole(1, 500))
    #: Entries kept in the results stream, about; None = all.
    results_maxlen: int | None = _setting(100_000, check.whole(1, optional=True))
    #: Dead letters kept, about; None = all.
    dead_maxlen: int | None = _setting(None, check.whole(1, optional=True))
    #: Tasks running at once in the whole namespace; seeds an empty namespace.
    max_running: int | None = _setting(None, check.whole(1, optional=True))
    #: How log lines are written.
    log_format: str = _setting("text", check.word(FORMATS))
    #: Port of ``/metrics``, ``/healthz`` and ``/readyz``; ``auto`` takes 9101 (a scheduler) or 9102
    #: (a worker), or a free one where that is taken.
    metrics_port: int | str = _setting("off", check.port)
    #: Tenants without a weight or a cap that have metrics of their own; the rest is ``other``.
    metrics_tenants: int = _setting(20, check.whole(0, 1_000))
    #: Whether the spans of tasks are written, with OpenTelemetry; needs the extra ``otel``.
    tracing: str = _setting("off", check.word(("off", "on")))
    #: Options by task name pattern, for tasks that are sent by name.
    routes: Mapping[str, Mapping[str, object]] = field(
        default_factory=dict, metadata={"check": check.routes}, hash=False
    )

    def __post_init__(self) -> None:
        for each in dataclasses.fields(self):
            value = each.metadata["check"](f"tq_{each.name}", getattr(self, each.name))
            object.__setattr__(self, each.name, value)
        if self.ssl:
            missing = {k: v for k, v in self.ssl.items() if f"{k}=" not in self.url}
            more = ("&" if "?" in self.url else "?") + urlencode(missing) if missing else ""
            object.__setattr__(self, "url", self.url + more)
        if self.lease < self.leader_ttl / 4:
            raise SettingsError(
                "tq_lease",
                self.lease,
                f"at least a quarter of tq_leader_ttl ({self.leader_ttl:g} s)",
            )

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of all settings, without prefix, in the order of the reference."""
        return tuple(each.name for each in dataclasses.fields(cls))

    @classmethod
    def load(
        cls,
        app_conf: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
        *,
        toml: str | Path | None = None,
        defaults: Mapping[str, object] | None = None,
        **explicit: object,
    ) -> Self:
        """Merge all sources, later wins, and check the result.

        ``environ`` is ``os.environ`` unless given; ``defaults`` replaces built-in defaults (an
        application's name as the namespace). An explicit ``None`` means "not given", except for
        settings where ``None`` is a value, such as ``max_pending``.
        """
        merged: dict[str, object] = dict(defaults or {})
        if toml is not None:
            merged |= _from_file(Path(toml), cls.names())
        merged |= _from_conf(app_conf or {}, cls.names())
        merged |= _from_environ(os.environ if environ is None else environ, cls.names())
        optional = {each.name for each in dataclasses.fields(cls) if "None" in str(each.type)}
        for name, value in explicit.items():
            if name not in cls.names():
                raise _unknown(name, cls.names())
            if value is not None or name in optional:
                merged[name] = value
        return cls(**merged)  # type: ignore[arg-type]  # __post_init__ checks every value

    @classmethod
    def from_toml(cls, path: str | Path) -> Self:
        """Read a TOML file alone: names without prefix, at the top or in a table ``[tq]``."""
        return cls.load(environ={}, toml=path)


def _unknown(name: str, known: Iterable[str], prefix: str = "") -> SettingsError:
    names = [prefix + each for each in known]
    hint = did_you_mean(name, names)
    return SettingsError("unknown setting", name, "the name of a setting" + hint)


def _from_file(path: Path, known: tuple[str, ...]) -> dict[str, object]:
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsError("config file", str(path), error.strerror or "a file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError("config file", str(path), f"TOML ({error})") from error
    table = content.pop("tq", {})
    if not isinstance(table, dict):
        raise SettingsError("tq", table, "a table of settings")
    found = {}
    for name, value in {**content, **table}.items():
        short = name.removeprefix("tq_")
        if short not in known:
            raise _unknown(name, known)
        found[short] = value
    return found


def _from_conf(conf: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, object]:
    # Celery's mapping answers get() also for names that carry the application's own prefix
    # (CELERY_TQ_URL under namespace="CELERY") and that its iteration spells differently.
    own = str(getattr(conf, "prefix", "") or "")
    starts = ("tq_", own + "TQ_") if own else ("tq_", "TQ_")
    for key in map(str, conf):
        if key.startswith(starts):
            name = key.removeprefix(own).lower()
            if name.removeprefix("tq_") not in known:
                raise _unknown(name, known, "tq_")
    missing = object()
    found = {}
    for name in known:
        for spelling in (f"tq_{name}", f"TQ_{name.upper()}"):
            value = conf.get(spelling, missing)
            if value is not missing:
                found[name] = value
                break
    return found


def _from_environ(environ: Mapping[str, str], known: tuple[str, ...]) -> dict[str, object]:
    found: dict[str, object] = {}
    for variable, value in environ.items():
        if not variable.startswith("TQ_") or not value:
            continue  # an empty variable is one that was not filled in
        name = variable.removeprefix("TQ_").lower()
        if name in known and not (_SERVICE_LINK.fullmatch(variable) and "://" in value):
            found[name] = value
        elif name in known:
            continue  # what a platform sets for a service named ``tq-metrics``
        elif name.partition("_")[0] not in _FOREIGN_WORDS and not _SERVICE_LINK.fullmatch(variable):
            raise _unknown(variable, (each.upper() for each in known), "TQ_")
    return found
