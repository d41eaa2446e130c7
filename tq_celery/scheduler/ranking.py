"""The policy in force, as every loop of a scheduler sees it.

The namespace stores which policy ranks it and a *generation*, a number that grows with every
switch. A loop ranks with one :class:`Ranking` and sends its generation along; the store refuses
ranks of another generation, so tasks ranked by two policies never meet in one order.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from tq_celery.policies.contract import Policy, Task
from tq_celery.policies.registry import make_policy, stored_ageing
from tq_celery.store.contract import LeaderStore
from tq_celery.store.record import MAX_SCORE, RECORD

__all__ = ["Ranking", "RankingBox", "check_values", "rank_record", "read_ranking"]

#: What producers may send; anything else was not written by one. Cost in s, tenant in bytes.
LEAST_COST, MOST_COST, LONGEST_TENANT = 1e-6, 1e9, 256


class Ranking(NamedTuple):
    """A policy and the generation of ranks it makes."""

    policy: Policy
    generation: int


def read_ranking(config: Mapping[str, str]) -> Ranking:
    """Return the ranking that a configuration asks for; SettingsError when it is unknown."""
    order_within = config.get("order_within", "arrival")
    policy = make_policy(config["policy"], order_within, stored_ageing(config))
    return Ranking(policy, int(config.get("generation", "1")))


class RankingBox:
    """Holds the ranking last read from the store; shared by the loops of one process."""

    def __init__(self) -> None:
        self._ranking: Ranking | None = None

    def read(self, store: LeaderStore) -> Ranking:
        """Return the ranking, reading it from the store when it is not known."""
        return self._ranking or self.reload(store)

    def reload(self, store: LeaderStore) -> Ranking:
        """Read the ranking from the store and keep it."""
        ranking = read_ranking(store.config())
        self._ranking = ranking
        return ranking

    def forget(self) -> None:
        """Read the store at the next use."""
        self._ranking = None


def check_values(cost: float, deadline: int, tenant: bytes) -> None:
    """Raise ValueError for values that no producer sends and that the scripts cannot take.

    A cost that is no number would make a score that the server refuses, amid a batch.
    """
    if not LEAST_COST <= cost <= MOST_COST:
        raise ValueError(f"cost is out of range: {cost!r}")
    if deadline > MAX_SCORE:
        raise ValueError(f"deadline is out of range: {deadline!r}")
    if len(tenant) > LONGEST_TENANT:
        raise ValueError(f"tenant has {len(tenant)} bytes")


def rank_record(policy: Policy, record: bytes) -> float:
    """Return the rank of a stored record; raises ``struct.error`` when it is too short."""
    try:
        ms, _, cost, priority, deadline, *_ = RECORD.unpack_from(record)
    except struct.error as error:
        raise struct.error(f"record of {len(record)} bytes: {error}") from error
    return policy.rank(Task(ms, cost, priority, deadline))
