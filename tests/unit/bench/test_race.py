"""Claims are counted by task: what goes to a second worker, and what comes back empty."""

from __future__ import annotations

from bench.experiments.race.run import Claims, claims


def test_every_task_once() -> None:
    assert claims([b"a", b"b", b"c"]) == Claims(claims=3, tasks=3, double=0, worst=1, empty=0)


def test_claims_beyond_the_first_are_double() -> None:
    popped = [b"a", b"a", b"a", b"b", b"b", b"c"]
    assert claims(popped) == Claims(claims=6, tasks=3, double=3, worst=3, empty=0)


def test_a_pop_without_a_task_is_no_claim() -> None:
    assert claims([None, b"a", None]) == Claims(claims=1, tasks=1, double=0, worst=1, empty=2)
    assert claims([]) == Claims(claims=0, tasks=0, double=0, worst=0, empty=0)
