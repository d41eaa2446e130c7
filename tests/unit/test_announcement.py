"""What a worker's announcement says; anything may stand there instead."""

from __future__ import annotations

import pytest

from tq_celery.store.announcement import (
    LAST_EPOCH,
    WorkerAnnouncement,
    announced_as,
    parse_announcement,
)


def test_what_is_announced_is_read_back() -> None:
    told = WorkerAnnouncement("w", ("a", "b"), 3, 2, "host", 9, "threads", 77, 5, 1234)
    assert parse_announcement("w", announced_as(told).encode(), 77) == told


@pytest.mark.parametrize(
    "raw",
    [
        b"\xff{", b"", b"null", b"[]", b'"text"', b'{"epoch": 1e999}', b'{"epoch_since": Infinity}',
        b'{"slots": -Infinity}', b'{"slots": NaN}', b'{"queues": 5}', b"[" * 100_000,
    ],
)  # fmt: skip
def test_what_cannot_be_read_offers_nothing(raw: bytes) -> None:
    """Seen to fail: with an infinite number, or brackets without end, every reader gave up."""
    assert parse_announcement("w", raw, 77) == WorkerAnnouncement("w", (), 0, 0, expires=77)


@pytest.mark.parametrize("epoch", [-1, LAST_EPOCH + 1, 10**30])
def test_an_epoch_that_no_election_gave_is_not_believed(epoch: int) -> None:
    raw = b'{"queues": ["a"], "slots": 3, "epoch": %d}' % epoch
    read = parse_announcement("w", raw, 0)
    assert (read.queues, read.slots, read.epoch) == (("a",), 3, 0)
