"""Which tenants have series of their own. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tq_celery.metrics.definitions import OTHER
from tq_celery.store.gauges import TenantGauges

__all__ = ["MOST_CONFIGURED", "Series", "label_of", "series_of"]

#: Most tenants that are shown for their settings.
MOST_CONFIGURED = 1_000


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

    ``live`` and ``in_flight`` are the tasks of all tenants, looked at or not; what the shown ones
    do not have is ``other``, so that the sum is right. A tenant whose label another one has, or
    that is called ``other``, is part of ``other``.
    """
    ranked = sorted(
        tenants.items(),
        key=lambda item: (not item[1].configured, -item[1].live, item[0]),
    )
    shown: dict[str, TenantGauges] = {}
    room = {True: MOST_CONFIGURED if most else 0, False: most}
    other = TenantGauges(live, in_flight)
    for tenant, each in ranked:
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
