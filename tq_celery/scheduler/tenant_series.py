"""Which tenants have series of their own. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tq_celery.metrics.definitions import OTHER
from tq_celery.store.accounts_contract import (
    MOST_CONFIGURED,
    MOST_SERVED,
    Accounts,
    Change,
    Served,
)
from tq_celery.store.gauges import TenantGauges

__all__ = [
    "CROWDED",
    "FORGET",
    "FORGET_SOON",
    "Series",
    "counted",
    "label_of",
    "record_changes",
    "series_of",
]

#: Ms without tasks after which a tenant has no series and, at the next look, no record.
FORGET = 3_600_000
#: The same for one without series, while there are very many.
FORGET_SOON = 60_000
#: Records that are very many.
CROWDED = MOST_SERVED * 4 // 5


@dataclass(frozen=True, slots=True)
class Series:
    """The tenants shown, by label, and what is left for ``other``."""

    shown: Mapping[str, TenantGauges]
    other: TenantGauges


def label_of(tenant: bytes) -> str:
    """Return a tenant's label: its text, with an escape for each byte that is none."""
    return tenant.decode(errors="backslashreplace")


def series_of(
    tenants: Mapping[bytes, TenantGauges], most: int, live: int, in_flight: int
) -> Series:
    """Show the tenants with settings, at zero too, and ``most`` others, by live tasks; 0: none.

    Of more settings than are shown those of the first names are, as in the counters.

    ``live`` and ``in_flight`` are the tasks of all tenants, looked at or not; what the shown ones
    do not have is ``other``, so that the sum is right. A tenant whose label another one has, or
    that is called ``other``, is part of ``other``.
    """

    def order(item: tuple[bytes, TenantGauges]) -> tuple[bool, int, bytes]:
        tenant, each = item
        return not each.configured, 0 if each.configured else -each.live, tenant

    shown: dict[str, TenantGauges] = {}
    room = {True: MOST_CONFIGURED if most else 0, False: most}
    other = TenantGauges(live, in_flight)
    for tenant, each in sorted(tenants.items(), key=order):
        label = label_of(tenant)
        if room[each.configured] and label != OTHER and label not in shown:
            shown[label] = each
            room[each.configured] -= 1
            other.live -= each.live
            other.in_flight -= each.in_flight
        elif each.oldest:
            other.oldest = min(other.oldest or each.oldest, each.oldest)
    # read one after the other, the totals may be a few tasks behind
    other.live, other.in_flight = max(0, other.live), max(0, other.in_flight)
    return Series(shown, other)


def record_changes(accounts: Accounts, most: int) -> dict[bytes, Change]:
    """Return what becomes of the tenants' records.

    Those with settings are shown, and of those with tasks within the hour the ``most`` that got
    the most service; 0: none. One whose label another has, or that is called ``other``, is not.
    """
    served, now = accounts.served, accounts.now
    configured = set(accounts.configured)

    def order(tenant: bytes) -> tuple[bool, int, bool, bytes]:
        known = served.get(tenant, Served())
        if tenant in configured:
            return False, 0, False, tenant
        return True, -known.micros, not known.shown, tenant

    labels: set[str] = set()
    room = {True: MOST_CONFIGURED if most else 0, False: most}
    changes: dict[bytes, Change] = {}
    for tenant in sorted({*served, *configured}, key=order):
        known, label, set_up = served.get(tenant), label_of(tenant), tenant in configured
        idle = 0 if set_up or tenant in accounts.live or known is None else now - known.last
        show = room[set_up] > 0 and idle < FORGET and label != OTHER and label not in labels
        if show:
            labels.add(label)
            room[set_up] -= 1
        if show != bool(known and known.shown):
            changes[tenant] = "shown" if show else "hidden"
        elif not show and idle >= (FORGET if len(served) < CROWDED else FORGET_SOON):
            changes[tenant] = "forgotten"
    return changes


def counted(
    served: Mapping[bytes, Served], tenants: Mapping[bytes, TenantGauges], most: int
) -> dict[str, Served]:
    """Return the counters that are shown, by label: also of new settings, before the next look."""
    shown = {label_of(tenant): each for tenant, each in served.items() if each.shown}
    configured = sorted(tenant for tenant, each in tenants.items() if each.configured)
    for tenant in configured[: MOST_CONFIGURED if most else 0]:
        label = label_of(tenant)
        if label != OTHER:
            shown.setdefault(label, served.get(tenant, Served()))
    return shown
