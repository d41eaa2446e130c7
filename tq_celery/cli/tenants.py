"""``tq tenants``: who the work is for, and how much of the workers each may have."""

from __future__ import annotations

import difflib
import math

import click

from tq_celery.cli import names
from tq_celery.cli.caps import parse_cap
from tq_celery.cli.groups import CommandError, NounGroup, option
from tq_celery.cli.output import print_json, print_table
from tq_celery.cli.session import Session, with_session

__all__ = ["tenants"]

#: Tenants looked at for a "did you mean".
SUGGEST_FROM = 2_000


@click.group(cls=NounGroup, examples=("tq tenants list",))
def tenants() -> None:
    """Weigh, cap, pause and resume tenants."""


new = option(
    "--new",
    is_flag=True,
    envvar="TQ_TENANTS_NEW",
    help="Set it although the tenant has no settings yet and had no tasks of late.",
)
tenant_argument = click.argument("tenant", metavar="TENANT", callback=names.tenant)


@tenants.command("list", examples=("tq tenants list --limit 50",))
@option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=1_000,
    show_default=True,
    envvar="TQ_TENANTS_LIST_LIMIT",
    help="Most tenants to read.",
)
@with_session
def list_(session: Session, limit: int) -> None:
    """List tenants, most waiting tasks first.

    Those that have live tasks or settings; an idle tenant leaves nothing behind.
    """
    found, partial = session.inspector.tenants(limit)
    found.sort(key=lambda view: (-sum(view.pending.values()), view.tenant))
    if session.json:
        print_json({"tenants": found, "partial": partial})
        return
    print_table(
        ["tenant", "weight", "cap", "state", "pending", "running", "live"],
        [
            [
                names.show(view.tenant),
                f"{view.weight:g}",
                view.max_running,
                "paused" if view.paused else "",
                sum(view.pending.values()),
                view.running,
                view.live,
            ]
            for view in found
        ],
    )
    if partial:
        click.echo(f"There are more tenants; {limit} were read (--limit).", err=True)


@tenants.command(examples=("tq tenants weight acme 3",))
@tenant_argument
@click.argument("weight", type=float, metavar="WEIGHT")
@new
@with_session
def weight(session: Session, tenant: bytes, weight: float, new: bool) -> None:
    """Set a tenant's share.

    A tenant of weight 3 gets three times what one of weight 1 gets, the default. Acts on waiting
    tasks at once; nothing is drained and nothing restarts. Read by the wfq policy.
    """
    if not (math.isfinite(weight) and 1e-3 <= weight <= 1e6):
        raise CommandError(f"weight: {weight:g} is not allowed; expected 0.001 to 1000000")
    _require(session, tenant, new)
    session.store.set_weight(tenant, weight)
    _report(session, tenant, f"weight {weight:g}")


@tenants.command(
    examples=(
        "tq tenants cap acme 8",
        "tq tenants cap acme none",
    )
)
@tenant_argument
@click.argument("max_running", metavar="MAX|none")
@new
@with_session
def cap(session: Session, tenant: bytes, max_running: str, new: bool) -> None:
    """Limit how many tasks a tenant runs at a time.

    At most MAX of its tasks are dispatched and not settled; none lifts the cap.
    """
    limit = parse_cap(max_running)
    _require(session, tenant, new)
    session.store.set_cap(tenant, limit)
    _report(session, tenant, "no cap" if limit is None else f"at most {limit} running")


@tenants.command(examples=("tq tenants pause acme",))
@tenant_argument
@new
@with_session
def pause(session: Session, tenant: bytes, new: bool) -> None:
    """Stop dispatching a tenant's tasks.

    New ones are still taken and wait; those already dispatched run to their end.
    """
    _require(session, tenant, new)
    session.store.pause_tenant(tenant)
    _report(session, tenant, "paused")


@tenants.command(examples=("tq tenants resume acme",))
@tenant_argument
@with_session
def resume(session: Session, tenant: bytes) -> None:
    """Dispatch a paused tenant's tasks again."""
    _require(session, tenant, False)
    session.store.resume_tenant(tenant)
    _report(session, tenant, "resumed")


def _require(session: Session, tenant: bytes, new: bool) -> None:
    """Refuse a tenant nobody has heard of, which is nearly always a typing error."""
    if new or session.inspector.known(tenant):
        return
    others, _ = session.inspector.tenants(SUGGEST_FROM)
    close = difflib.get_close_matches(names.show(tenant), [names.show(v.tenant) for v in others], 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise CommandError(
        f"no such tenant: {names.show(tenant)} has no settings and had no tasks of late{hint} "
        "(weight, cap and pause take --new)"
    )


def _report(session: Session, tenant: bytes, done: str) -> None:
    if session.json:
        print_json(session.inspector.describe([tenant])[0])
    else:
        click.echo(f"{names.show(tenant)}: {done}")
