"""Scheduling options: what they may be, and that anything else fails at the call."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import pytest

from tq_celery.errors import OptionError
from tq_celery.options import Deadline, TaskOptions, check, const

GOOD = [
    ("tenant", "acme", b"acme"),
    ("tenant", b"\x00\xff", b"\x00\xff"),
    ("tenant", "é" * 128, "é".encode() * 128),
    ("tenant", 42, b"42"),
    ("tenant", 0, b"0"),
    ("tenant", UUID(int=1), str(UUID(int=1)).encode()),
    ("tenant", "", None),
    ("tenant", b"", None),
    ("cost", 1, 1.0),
    ("cost", 1e-6, 1e-6),
    ("cost", 1e9, 1e9),
    ("cost", Fraction(1, 2), 0.5),
    ("priority", 0, 0),
    ("priority", 255, 255),
    ("deadline", 30, Deadline(None, 30_000)),
    ("deadline", 0.0001, Deadline(None, 1)),
    ("deadline", 1e9, Deadline(None, 10**12)),
    ("deadline", timedelta(minutes=2), Deadline(None, 120_000)),
    ("deadline", datetime(2026, 1, 1, tzinfo=UTC), Deadline(1_767_225_600_000, None)),
]


@pytest.mark.parametrize(("name", "value", "checked"), GOOD)
def test_allowed_values(name: str, value: object, checked: object) -> None:
    assert check(name, value) == checked


@pytest.mark.parametrize("name", ["tenant", "cost", "priority", "deadline"])
def test_none_is_unset(name: str) -> None:
    assert check(name, None) is None


BAD = [
    ("tenant", "x" * 257, "256 bytes"),
    ("tenant", "é" * 129, "256 bytes"),
    ("tenant", True, "256 bytes"),
    ("tenant", False, "256 bytes"),
    ("tenant", 1.5, "256 bytes"),
    ("tenant", ["acme"], "256 bytes"),
    ("tenant", object(), "256 bytes"),
    ("cost", 0, "1e-6 to 1e9"),
    ("cost", -1, "1e-6 to 1e9"),
    ("cost", 9e-7, "1e-6 to 1e9"),
    ("cost", 1.1e9, "1e-6 to 1e9"),
    ("cost", math.nan, "1e-6 to 1e9"),
    ("cost", math.inf, "1e-6 to 1e9"),
    ("cost", True, "1e-6 to 1e9"),
    ("cost", "2", "1e-6 to 1e9"),
    ("cost", Decimal(1), "1e-6 to 1e9"),
    ("priority", -1, "0 to 255"),
    ("priority", 256, "0 to 255"),
    ("priority", True, "0 to 255"),
    ("priority", 1.0, "0 to 255"),
    ("priority", "7", "0 to 255"),
    ("priority", 10**30, "0 to 255"),
    ("deadline", 0, "seconds from now"),
    ("deadline", -5, "seconds from now"),
    ("deadline", math.inf, "seconds from now"),
    ("deadline", math.nan, "seconds from now"),
    ("deadline", 1.1e9, "seconds from now"),
    ("deadline", True, "seconds from now"),
    ("deadline", "30", "seconds from now"),
    ("deadline", timedelta(0), "seconds from now"),
    ("deadline", datetime(2026, 1, 1), "time zone"),  # noqa: DTZ001
    ("deadline", datetime(1969, 1, 1, tzinfo=UTC), "after 1970"),
]


@pytest.mark.parametrize(("name", "value", "allowed"), BAD)
def test_out_of_range_names_option_value_and_range(name: str, value: object, allowed: str) -> None:
    with pytest.raises(OptionError) as caught:
        check(name, value)
    assert caught.value.name == name
    assert str(caught.value).startswith(f"{name}: ")
    assert allowed in str(caught.value)


def test_a_huge_value_does_not_fill_the_log() -> None:
    with pytest.raises(OptionError) as caught:
        check("tenant", "x" * 10_000_000)
    assert len(str(caught.value)) < 500


def report(account_id: int, pages: int = 3, *rest: int, urgent: int = 1, **extra: Any) -> None:
    """What the declarations below are for."""


def values(options: TaskOptions, *args: Any, **kwargs: Any) -> Any:
    return options.rules(report).values(args, kwargs, {"countdown": 1})


def test_a_string_names_a_parameter_however_it_is_passed() -> None:
    options = TaskOptions(tenant="account_id", cost="pages", priority="urgent")
    assert values(options, 7) == {"tenant": b"7", "cost": 3.0, "priority": 1}
    assert values(options, 7, 9) == {"tenant": b"7", "cost": 9.0, "priority": 1}
    assert values(options, account_id="a", pages=2, urgent=4) == {
        "tenant": b"a",
        "cost": 2.0,
        "priority": 4,
    }


def test_a_parameter_that_holds_none_leaves_the_option_unset() -> None:
    assert values(TaskOptions(tenant="account_id"), None) == {}


def test_literals_and_callables() -> None:
    options = TaskOptions(
        tenant=const("billing"),
        cost=lambda args, kwargs, options: len(args) + options["countdown"],
        priority=9,
        deadline=timedelta(seconds=1),
    )
    assert values(options, 1, 2) == {
        "tenant": b"billing",
        "cost": 3.0,
        "priority": 9,
        "deadline": Deadline(None, 1000),
    }


def test_a_bound_task_does_not_count_self() -> None:
    def bound(self: object, account_id: str) -> None: ...

    rules = TaskOptions(tenant="account_id").rules(bound, skip=1)
    assert rules.values(("acme",), {}, {}) == {"tenant": b"acme"}


def test_a_value_from_a_parameter_is_checked_at_the_call() -> None:
    with pytest.raises(OptionError, match="cost: -1 is not allowed; expected a number from"):
        values(TaskOptions(cost="pages"), 1, -1)


@pytest.mark.parametrize("name", ["tenant", "cost", "priority", "deadline"])
def test_a_string_that_names_no_parameter_fails_at_the_declaration(name: str) -> None:
    def small(account: str) -> None: ...

    with pytest.raises(OptionError, match=r"name of a parameter of small \(account\)") as caught:
        TaskOptions(**{name: "acount"}).rules(small)  # type: ignore[arg-type]
    assert caught.value.name == name


def test_variadic_parameters_hold_no_single_value() -> None:
    with pytest.raises(OptionError, match="holds one value"):
        TaskOptions(tenant="rest").rules(report)


def test_keyword_catch_all_may_carry_the_option() -> None:
    rules = TaskOptions(tenant="who").rules(report)
    assert rules.values((), {"who": "x"}, {}) == {"tenant": b"x"}


@pytest.mark.parametrize(
    "declaration",
    [
        {"tenant": b"acme"},
        {"tenant": 5},
        {"tenant": const("x" * 257)},
        {"cost": 0},
        {"cost": const("2")},
        {"priority": 256},
        {"priority": True},
        {"deadline": -1},
        {"deadline": datetime(2026, 1, 1)},  # noqa: DTZ001
    ],
)
def test_bad_literals_fail_at_the_declaration(declaration: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        TaskOptions(**declaration)


def test_options_are_completed_from_a_base() -> None:
    base = TaskOptions(tenant="account_id", cost=5)
    assert TaskOptions(cost=2).over(base) == TaskOptions(tenant="account_id", cost=2)
