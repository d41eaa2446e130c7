"""Which tenants have series: those with settings, then the busiest, and the rest is ``other``."""

from __future__ import annotations

from tq_celery.scheduler.tenant_series import series_of
from tq_celery.store.gauges import TenantGauges


def test_tenants_with_settings_are_shown_at_zero_too_and_the_busiest_others() -> None:
    """A starved tenant that somebody cares about is visible, however many flood."""
    tenants = {
        b"flood": TenantGauges(900, 10, oldest=5),
        b"busy": TenantGauges(50, 2),
        b"small": TenantGauges(3, 1, oldest=9),
        b"starved": TenantGauges(configured=True),
        b"capped": TenantGauges(configured=True),
    }
    series = series_of(tenants, 1, live=960, in_flight=13)
    assert list(series.shown) == ["capped", "starved", "flood"]
    assert (series.other.live, series.other.in_flight, series.other.oldest) == (60, 3, 9)


def test_settings_of_very_many_tenants_are_bounded() -> None:
    tenants = {b"%d" % n: TenantGauges(1, configured=True) for n in range(1_500)}
    series = series_of(tenants, 20, live=1_500, in_flight=0)
    assert (len(series.shown), series.other.live) == (1_000, 500)


def test_other_is_exact_although_not_every_tenant_was_looked_at() -> None:
    series = series_of({b"a": TenantGauges(4, 1)}, 20, live=10_000, in_flight=16)
    assert (series.other.live, series.other.in_flight) == (9_996, 15)


def test_labels_never_clash() -> None:
    """A series that is there twice spoils the whole scrape. Seen to fail without the two checks."""
    tenants = {b"other": TenantGauges(7), b"\xff": TenantGauges(2), b"\\xff": TenantGauges(1)}
    series = series_of(tenants, 20, live=10, in_flight=0)
    assert {label: each.live for label, each in series.shown.items()} == {r"\xff": 2}
    assert series.other.live == 8


def test_none_at_all() -> None:
    tenants = {b"a": TenantGauges(4, 1), b"b": TenantGauges(configured=True)}
    series = series_of(tenants, 0, live=4, in_flight=1)
    assert not series.shown
    assert series.other.live == 4
