"""Each held delivery has the time of a token of its own, and keeps it."""

from __future__ import annotations

from kombu.utils.limits import TokenBucket

from tq_celery.worker.tokens import LONGEST_HOLD, Turns


class Bucket(TokenBucket):
    """Celery's bucket, empty at first, with the test's time."""

    now = 100.0

    def __init__(self, rate: float) -> None:
        super().__init__(rate, capacity=1)
        self._tokens, self.timestamp = 0.0, self.now

    def _get_tokens(self) -> float:
        since, self.timestamp = self.timestamp or 0.0, self.now
        grown = self._tokens + (self.fill_rate or 0.0) * (self.now - since)
        self._tokens = min(self.capacity, grown)
        return self._tokens


def test_turns_are_a_token_apart_and_an_early_one_keeps_its_own() -> None:
    bucket, turns = Bucket(10.0), Turns()
    assert [turns.ask(bucket, 100.0) for _ in range(3)] == [100, 200, 300]
    bucket.now = 100.14  # the first comes back late
    assert turns.ask(bucket, 100.14) == 0
    bucket.now = 100.2  # the second in time, for a token that is late
    assert turns.ask(bucket, 100.2) == 40
    assert turns.ask(bucket, 100.2) == 200, "one that comes newly goes behind the third"
    bucket.now = 100.25
    assert turns.ask(bucket, 100.25) == 0


def test_nobody_stays_away_for_ever() -> None:
    bucket, turns = Bucket(1 / 60), Turns()
    assert [turns.ask(bucket, 100.0) for _ in range(100)] == [LONGEST_HOLD * 1000] * 100
    assert not turns._due


def test_another_limit_counts_at_once() -> None:
    turns = Turns()
    slow, fast = Bucket(0.1), Bucket(100.0)
    assert [turns.ask(slow, 100.0) for _ in range(2)] == [10_000, 20_000]
    assert turns.ask(fast, 100.0) == 10
