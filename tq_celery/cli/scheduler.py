"""``tq scheduler``: ranks and dispatches; any number may run, one of them leads."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tq_celery.cli.durations import duration, duration_or_none
from tq_celery.cli.groups import TQCommand, option
from tq_celery.cli.session import Session, with_session
from tq_celery.logs import FORMATS, Log, formatter
from tq_celery.settings import ORDERS_WITHIN, POLICIES

if TYPE_CHECKING:
    from tq_celery.settings import Settings

__all__ = ["scheduler"]

Function = TypeVar("Function", bound=Callable[..., Any])

LEVELS = ("debug", "info", "warning", "error")
#: Settings that only seed an empty namespace.
SEEDS = ("policy", "order_within", "ageing", "max_running")


class SettingOption(click.Option):
    """A flag for a setting; its variable is read by the settings, which other sources join."""

    def value_from_envvar(self, ctx: click.Context) -> Any:
        """Leave the environment to the settings."""
        return None


def setting(name: str, help_: str, **attributes: Any) -> Callable[[Function], Function]:
    """Return the option for one setting; a duration when its metavar says so."""
    kinds = {"DURATION": duration, "DURATION|none": duration_or_none}
    if (metavar := attributes.get("metavar")) in kinds:
        attributes["callback"] = kinds[metavar]
    return option(
        f"--{name.replace('_', '-')}",
        envvar=f"TQ_{name.upper()}",
        cls=SettingOption,
        help=help_,
        **attributes,
    )


@click.command(
    cls=TQCommand,
    examples=(
        "tq scheduler --url redis://localhost:6379/0 --namespace shop",
        "tq scheduler --policy wfq --lease 30s",
    ),
)
@setting("policy", "Policy of an empty namespace.", type=click.Choice(POLICIES))
@setting(
    "order_within",
    "Order of one tenant's tasks under wfq, of an empty namespace.",
    type=click.Choice(ORDERS_WITHIN),
)
@setting(
    "ageing",
    "Waiting worth one level of priority, of an empty namespace.",
    metavar="DURATION|none",
)
@setting(
    "max_running",
    "Most tasks dispatched at a time, of an empty namespace.",
    type=int,
    metavar="COUNT",
)
@setting("lease", "After this a silent worker's tasks run elsewhere.", metavar="DURATION")
@setting("leader_ttl", "After this a silent leader is replaced.", metavar="DURATION")
@setting(
    "leader_replicas",
    "Replicas of the server that must have a grant of the lease before it counts.",
    type=int,
    metavar="COUNT",
)
@setting(
    "delivery_budget", "Lost deliveries after which a task is buried.", type=int, metavar="COUNT"
)
@setting("done_memory", "How long settled tasks are remembered.", metavar="DURATION")
@setting("done_max", "Most settled tasks remembered.", type=int, metavar="COUNT")
@setting("batch", "Tasks moved by one call to the server, at most 500.", type=int, metavar="COUNT")
@setting("results_maxlen", "Entries kept in the results stream.", type=int, metavar="COUNT")
@setting("dead_maxlen", "Dead letters kept.", type=int, metavar="COUNT")
@setting("metrics_port", "Port of /metrics, /healthz and /readyz.", metavar="PORT|auto|off")
@setting(
    "metrics_tenants",
    "Tenants with metrics of their own; the rest is 'other'.",
    type=int,
    metavar="COUNT",
)
@option(
    "--log-level",
    type=click.Choice(LEVELS),
    default="info",
    show_default=True,
    envvar="TQ_SCHEDULER_LOG_LEVEL",
    help="Least severe log line to print.",
)
@setting("log_format", "How log lines are written.", type=click.Choice(FORMATS))
@with_session
def scheduler(session: Session, /, log_level: str, **flags: Any) -> None:
    """Run a scheduler until it is stopped; one of those running leads, the others stand by.

    Needs a server and a namespace, no application. The policy is stored in the namespace: flags
    seed an empty one, and tq policy set switches it. With --json, as with --log-format json, every
    log line is a JSON object.
    """
    from tq_celery.scheduler.service import Scheduler
    from tq_celery.store.redis_store import RedisStore

    settings = session.load(**flags)
    set_up_log(log_level, "json" if session.json else settings.log_format)
    store = RedisStore.open(settings)
    try:
        stored = store.seed(settings)
    finally:
        store.close()
    kept = mismatch(settings, stored)
    if kept:
        Log("tq_celery.scheduler").warning(
            "the namespace keeps its own values; tq policy set switches the policy",
            namespace=settings.namespace,
            **kept,
        )
    Scheduler(settings).run()


def mismatch(settings: Settings, stored: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings that the namespace overrules, each with what it keeps."""
    differing = {}
    for name in SEEDS:
        wanted, kept = getattr(settings, name), stored.get(name)
        if wanted is not None and str(wanted) != kept:
            differing[name] = f"{kept or 'none'} (not {wanted})"
    return differing


def set_up_log(level: str, word: str) -> None:
    """Log to stderr in the format of that name."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter(word))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
