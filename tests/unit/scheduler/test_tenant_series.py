"""Which tenants have series: those with settings, then the busiest, and the rest is ``other``."""

from __future__ import annotations

from typing import Any

import pytest

from tq_celery.scheduler.tenant_series import (
    CROWDED,
    FORGET,
    FORGET_SOON,
    counted,
    label_of,
    record_changes,
    series_of,
)
from tq_celery.store.accounts_contract import Accounts, Served
from tq_celery.store.gauges import TenantGauges

NOW = 10 * FORGET


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


def test_of_very_many_settings_gauges_and_counters_show_the_same() -> None:
    names = [b"%04d" % number for number in range(1_500)]
    served = {name: Served(micros=number) for number, name in enumerate(names)}
    changes = record_changes(accounts(served, configured=names), 20)
    gauges = {name: TenantGauges(number, configured=True) for number, name in enumerate(names)}
    shown = series_of(gauges, 20, live=0, in_flight=0).shown
    assert set(shown) == {label_of(n) for n, change in changes.items() if change == "shown"}


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


# -- counters ------------------------------------------------------------------------------------


def accounts(served: dict[bytes, Served], **parts: Any) -> Accounts:
    return Accounts(NOW, 0, 0, served, parts.get("live", ()), parts.get("configured", ()))


def record(micros: int, *, shown: int = 0, idle: int = 0) -> Served:
    return Served(micros, 1, 0, NOW - idle, shown)


def test_counters_are_of_who_got_most_and_of_all_with_settings() -> None:
    """A starved tenant that somebody cares about is there at zero."""
    served = {b"a": record(5), b"b": record(9), b"c": record(7, shown=1), b"set": record(1)}
    with_settings = {b"set", b"starved"}
    first = {b"set": "shown", b"starved": "shown", b"b": "shown"}
    assert record_changes(accounts(served, configured=with_settings), 2) == first
    served[b"a"] = record(8)
    second = {**first, b"a": "shown", b"c": "hidden"}
    assert record_changes(accounts(served, configured=with_settings), 2) == second


def test_of_two_that_got_as_much_the_one_that_is_shown_stays() -> None:
    assert not record_changes(accounts({b"a": record(5), b"b": record(5, shown=1)}), 1)


def test_who_has_no_tasks_for_an_hour_leaves_in_two_steps() -> None:
    """A counter vanishes before it can begin again at zero, so that none falls."""
    idle = record(9, shown=1, idle=FORGET)
    assert record_changes(accounts({b"a": idle}), 5) == {b"a": "hidden"}
    assert record_changes(accounts({b"a": idle._replace(shown=0)}), 5) == {b"a": "forgotten"}
    almost = {b"a": record(9, shown=1, idle=FORGET - 1)}
    assert not record_changes(accounts(almost), 5)
    assert not record_changes(accounts({b"a": idle}, live={b"a"}), 5)
    assert not record_changes(accounts({b"a": idle}, configured={b"a"}), 5)


@pytest.mark.parametrize("count, forgotten", [(CROWDED - 1, 0), (CROWDED, CROWDED - 20)])
def test_while_there_are_very_many_they_leave_soon(count: int, forgotten: int) -> None:
    served = {b"%d" % n: record(n, idle=FORGET_SOON) for n in range(count)}
    found = record_changes(accounts(served), 20)
    assert list(found.values()).count("forgotten") == forgotten
    assert list(found.values()).count("shown") == 20


def test_labels_of_counters_never_clash() -> None:
    """Seen to fail without the two checks."""
    served = {b"other": record(9), b"\xff": record(5), b"\\xff": record(7)}
    assert record_changes(accounts(served), 9) == {b"\\xff": "shown"}
    assert record_changes(accounts({}, configured={b"other"}), 9) == {}


def test_with_none_everybody_is_other() -> None:
    served = {b"a": record(9, shown=1), b"b": record(7)}
    assert record_changes(accounts(served, configured={b"b"}), 0) == {b"a": "hidden"}
    assert not counted({}, {b"b": TenantGauges(configured=True)}, 0)


def test_settings_of_very_many_tenants_have_counters_up_to_a_bound() -> None:
    names = [b"%04d" % n for n in range(1_500)]
    found = record_changes(accounts({}, configured=set(names)), 20)
    assert found == dict.fromkeys(names[:1_000], "shown")
    shown = counted({}, {name: TenantGauges(configured=True) for name in names}, 20)
    assert len(shown) == 1_000


def test_a_new_setting_has_counters_before_the_next_look() -> None:
    gauges = {b"set": TenantGauges(configured=True), b"live": TenantGauges(3)}
    served = {b"set": record(4), b"live": record(5), b"shown": record(6, shown=1)}
    assert counted(served, gauges, 20) == {"shown": served[b"shown"], "set": served[b"set"]}
    assert counted({}, {b"set": TenantGauges(configured=True)}, 20) == {"set": Served()}
