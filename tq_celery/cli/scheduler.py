"""``tq scheduler``: ranks and dispatches; any number may run, one of them leads."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tq_celery.cli.durations import duration, duration_or_none
from tq_celery.cli.groups import TQCommand, option
from tq_celery.cli.session import Session, with_session
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
    "delivery_budget", "Lost deliveries after which a task is buried.", type=int, metavar="COUNT"
)
@setting("done_memory", "How long settled tasks are remembered.", metavar="DURATION")
@setting("done_max", "Most settled tasks remembered.", type=int, metavar="COUNT")
@setting("batch", "Tasks moved by one call to the server, at most 500.", type=int, metavar="COUNT")
@setting("results_maxlen", "Entries kept in the results stream.", type=int, metavar="COUNT")
@setting("dead_maxlen", "Dead letters kept.", type=int, metavar="COUNT")
@option(
    "--log-level",
    type=click.Choice(LEVELS),
    default="info",
    show_default=True,
    envvar="TQ_SCHEDULER_LOG_LEVEL",
    help="Least severe log line to print.",
)
@with_session
def scheduler(session: Session, /, log_level: str, **flags: Any) -> None:
    """Run a scheduler until it is stopped; one of those running leads, the others stand by.

    Needs a server and a namespace, no application. The policy is stored in the namespace: flags
    seed an empty one, and tq policy set switches it. With --json the log is JSON, line by line.
    """
    from tq_celery.scheduler.service import Scheduler
    from tq_celery.store.redis_store import RedisStore

    settings = session.load(**flags)
    set_up_log(log_level, session.json)
    store = RedisStore.open(settings)
    try:
        stored = store.seed(settings)
    finally:
        store.close()
    warning = mismatch(settings, stored)
    if warning:
        logging.getLogger("tq_celery.scheduler").warning(warning)
    Scheduler(settings).run()


def mismatch(settings: Settings, stored: Mapping[str, str]) -> str:
    """Return one line about settings that the namespace overrules; empty when there are none."""
    differing = []
    for name in SEEDS:
        wanted, kept = getattr(settings, name), stored.get(name)
        if wanted is not None and str(wanted) != kept:
            differing.append(f"{name} {kept or 'none'} (not {wanted})")
    if not differing:
        return ""
    return (
        f"namespace {settings.namespace} keeps its own {', '.join(differing)}; "
        "tq policy set switches the policy"
    )


class JsonLines(logging.Formatter):
    """One JSON object per log line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record with its time in ISO 8601, UTC."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "at": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def set_up_log(level: str, as_json: bool) -> None:
    """Log to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonLines() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    )
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
