"""A worker starts nothing that a superseded leader dispatched after its successor had."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tq_celery.store.contract import Delivery, Return, Token
from tq_celery.worker.deliveries import DeliveryTable
from tq_celery.worker.epochs import AWAY, PATIENCE, Epochs


def token(epoch: int, at: int, sequence: int = 0) -> Token:
    """One dispatched under ``epoch`` at ``at`` ms."""
    return Token("q", b"%d-%d" % (at, sequence), epoch)


@pytest.fixture
def epochs() -> Epochs:
    """Of a worker whose first task of epoch 5 was dispatched at 1,000 ms."""
    epochs = Epochs()
    assert not epochs.refuses(token(5, 1_000), 0.0)
    return epochs


def test_the_first_task_of_the_newest_epoch_is_remembered(epochs: Epochs) -> None:
    assert not epochs.refuses(token(5, 1_200), 0.0)
    assert not epochs.refuses(token(4, 900), 0.0)
    assert (epochs.newest, epochs.since) == (5, 1_000)
    assert not epochs.refuses(token(7, 2_000), 0.0)
    assert (epochs.newest, epochs.since) == (7, 2_000)


@pytest.mark.parametrize(
    ("epoch", "at", "refused"),
    [(4, 1_001, True), (4, 1_000, False), (4, 999, False), (5, 900, False), (6, 900, False)],
    ids=["later", "in the same ms", "earlier", "of the epoch itself", "of a newer epoch"],
)
def test_an_older_epoch_is_refused_from_the_newer_ones_first_task_on(
    epochs: Epochs, epoch: int, at: int, refused: bool
) -> None:
    """What the old leader dispatched before it was superseded is as good as ever."""
    assert epochs.refuses(token(epoch, at), 0.0) is refused


@pytest.mark.parametrize("epoch", [0, 2**60])
def test_what_no_election_gave_is_let_through_and_not_believed(epochs: Epochs, epoch: int) -> None:
    """An unreadable delivery has epoch 0; it is buried elsewhere."""
    assert not epochs.refuses(token(epoch, 2_000), 0.0)
    assert epochs.newest == 5


def test_a_leader_that_goes_on_regardless_is_given_in_to(
    epochs: Epochs, caplog: pytest.LogCaptureFixture
) -> None:
    """One of a release before reads no epochs in announcements; its tasks are to run.

    Seen to fail without the end of patience: nothing ran any more.
    """
    with caplog.at_level(logging.WARNING, "tq_celery.worker"):
        assert epochs.refuses(token(1, 2_000), 100.0)
        assert epochs.refuses(token(1, 9_000), 100.0 + PATIENCE - 0.1)
        assert not epochs.refuses(token(1, 12_000), 100.0 + PATIENCE)
    assert (epochs.newest, epochs.since) == (1, 12_000)
    assert not epochs.refuses(token(1, 12_500), 111.0)
    assert "holds on to an older epoch: epoch=1 newest=5" in caplog.text


def test_patience_is_for_one_epoch(epochs: Epochs) -> None:
    assert epochs.refuses(token(1, 2_000), 100.0)
    assert epochs.refuses(token(2, 3_000), 100.0 + PATIENCE)


def test_a_line_a_second(epochs: Epochs, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tq_celery.worker"):
        for step in range(25):
            assert epochs.refuses(token(4, 2_000 + step), 100.0 + step / 10)
    assert [record.getMessage() for record in caplog.records] == [
        "a superseded leader's deliveries are given back: deliveries=1 epoch=4 newest=5",
        "a superseded leader's deliveries are given back: deliveries=10 epoch=4 newest=5",
        "a superseded leader's deliveries are given back: deliveries=10 epoch=4 newest=5",
    ]


@pytest.fixture
def table() -> Iterator[DeliveryTable]:
    table = DeliveryTable()
    yield table
    table.close()


def test_a_refused_delivery_goes_back_unstarted_and_uncounted(table: DeliveryTable) -> None:
    """Seen to fail without the question to the epochs: the delivery waited for a slot."""
    good, bad, late = token(5, 1_000), token(4, 1_001), token(4, 999)
    table.take([Delivery(each, b"0.0.0.n", 0, b"payload") for each in (good, bad, late)], 0.0)
    assert [held.delivery.token for held in table.waiting] == [good, late]
    assert list(table.fetched) == list(table.waiting)
    assert list(table.outbox) == [Return(bad, counted=False, delay=AWAY)]
