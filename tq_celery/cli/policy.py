"""``tq policy``: which order a namespace follows; switched while it runs."""

from __future__ import annotations

import time
from collections.abc import Mapping

import click

from tq_celery.cli.caps import parse_cap
from tq_celery.cli.durations import duration, duration_or_none, format_age
from tq_celery.cli.groups import CommandError, NounGroup, option
from tq_celery.cli.output import print_json
from tq_celery.cli.session import Session, with_session
from tq_celery.policies.registry import stored_ageing
from tq_celery.settings import ORDERS_WITHIN, POLICIES

__all__ = ["policy", "policy_line"]

#: Seconds between two looks at the progress of a switch.
LOOK_EVERY = 0.1


@click.group(cls=NounGroup, examples=("tq policy show",))
def policy() -> None:
    """Show or switch the policy of a namespace."""


@policy.command(examples=("tq policy show --json",))
@with_session
def show(session: Session) -> None:
    """Show the policy and whether a switch is under way."""
    _print(session)


@policy.command(
    "set",
    examples=(
        "tq policy set wfq",
        "tq policy set wfq --order-within deadline --wait 30s",
        "tq policy set priority --ageing 30s",
    ),
)
@click.argument("name", type=click.Choice(POLICIES), metavar="NAME")
@option(
    "--order-within",
    type=click.Choice(ORDERS_WITHIN),
    envvar="TQ_POLICY_SET_ORDER_WITHIN",
    help="Order of one tenant's own tasks, read by wfq (default: keep the present one).",
)
@option(
    "--ageing",
    metavar="DURATION|none",
    callback=duration_or_none,
    envvar="TQ_POLICY_SET_AGEING",
    help="Waiting worth one level of priority, read where priority decides; none: priority alone "
    "decides (default: keep the present one).",
)
@option(
    "--wait",
    metavar="DURATION",
    callback=duration,
    envvar="TQ_POLICY_SET_WAIT",
    help="Wait up to DURATION until the leader has ranked all waiting tasks anew.",
)
@with_session
def set_(
    session: Session,
    name: str,
    order_within: str | None,
    ageing: float | str | None,
    wait: float | None,
) -> None:
    """Switch to policy NAME while everything keeps running.

    Waiting tasks are ranked anew, tenant by tenant; nothing is drained and nothing restarts.
    """
    stored = session.inspector.config()
    order = order_within or stored.get("order_within") or session.settings.order_within
    if ageing is None:
        kept = stored_ageing(stored) if "policy" in stored else session.settings.ageing
    else:
        kept = None if isinstance(ageing, str) else ageing
    generation = session.store.set_policy(name, order, kept)
    if wait is not None:
        _await_ranks(session, generation, wait)
    _print(session)


@policy.command(examples=("tq policy cap 64", "tq policy cap none"))
@click.argument("max_running", metavar="MAX|none")
@with_session
def cap(session: Session, max_running: str) -> None:
    """Limit how many tasks the whole namespace runs at a time.

    At most MAX tasks are dispatched and not settled; none lifts the cap. Caps of tenants hold
    besides.
    """
    session.store.set_max_running(parse_cap(max_running))
    _print(session)


def policy_line(config: Mapping[str, str]) -> str:
    """Return the stored policy in words."""
    name, order = config.get("policy"), config.get("order_within", "arrival")
    if name is None:
        return "not set; the first scheduler sets it"
    most = config.get("max_running")
    limit = f", at most {most} running" if most else ""
    within = f", by {order} within a tenant" if name == "wfq" else ""
    ageing = stored_ageing(config)
    if ageing is not None and (name == "priority" or (name, order) == ("wfq", "priority")):
        within += f", one level is worth {format_age(ageing)} of waiting"
    return f"{name}{within}{limit}, generation {config.get('generation', '?')}"


def _unranked(session: Session) -> int:
    return sum(view.unranked for view in session.inspector.queues())


def _await_ranks(session: Session, generation: int, wait: float) -> None:
    give_up = time.monotonic() + wait
    while left := _unranked(session):
        if time.monotonic() >= give_up:
            reason = "" if session.inspector.leader().owner else ": no leader (start tq scheduler)"
            raise CommandError(
                f"generation {generation} is set, but {left} tenants are not ranked yet{reason}"
            )
        time.sleep(LOOK_EVERY)


def _print(session: Session) -> None:
    config, unranked = session.inspector.config(), _unranked(session)
    leads = session.inspector.leader().owner is not None
    if session.json:
        generation = config.get("generation")
        print_json(
            {
                "policy": config.get("policy"),
                "order_within": config.get("order_within"),
                "ageing": stored_ageing(config),
                "generation": int(generation) if generation else None,
                "max_running": int(config["max_running"]) if config.get("max_running") else None,
                "unranked": unranked,
                "leader": leads,
            }
        )
        return
    click.echo(policy_line(config))
    if unranked:
        click.echo(f"a switch is under way: {unranked} tenants are still to be ranked anew")
    if not leads:
        click.echo("no leader: nothing is ranked or dispatched until a scheduler runs", err=True)
