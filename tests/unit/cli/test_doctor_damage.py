"""The doctor of a namespace that something else than the library wrote to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.cli.conftest import Space


@pytest.mark.parametrize(
    ("word", "field"), [("counters", b"\xff"), ("live", b"acme"), ("caps", b"acme")]
)
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_value_that_is_none_of_ours(
    space: Space, refused: Callable[..., str], word: str, field: bytes, options: tuple[str, ...]
) -> None:
    """Seen to fail: it ended in a traceback."""
    space.submit()
    space.client.hset(space.key(word), field, b"no number, " * 1000)
    line = refused("doctor", *options)
    assert "holds what is not this library's" in line
    assert len(line) < 400
