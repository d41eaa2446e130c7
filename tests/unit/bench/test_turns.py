"""The order of rivals turns round every repetition."""

from __future__ import annotations

from bench.harness.turns import turns


def test_whoever_was_first_is_last_in_the_next_repetition() -> None:
    assert list(turns(3, ("ours", "stock", "plus"))) == [
        (0, "ours"), (0, "stock"), (0, "plus"),
        (1, "plus"), (1, "stock"), (1, "ours"),
        (2, "ours"), (2, "stock"), (2, "plus"),
    ]  # fmt: skip


def test_one_rival_and_no_repetition() -> None:
    assert list(turns(2, ["ours"])) == [(0, "ours"), (1, "ours")]
    assert list(turns(0, ["ours"])) == []
