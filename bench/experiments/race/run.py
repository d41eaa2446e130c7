"""Rounds in which every worker pops at the same moment, and what they got."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from bench.experiments.race.pops import POPS, Pop
from bench.harness.errors import BenchError
from bench.harness.servers import RedisServer

__all__ = ["Claims", "claims", "race"]

#: Seconds for one round, far more than it takes.
PATIENCE = 30.0


@dataclass(frozen=True, slots=True)
class Claims:
    """What the pops of one run returned.

    ``claims`` pops got a task, ``tasks`` different ones; ``double`` is the claims beyond a task's
    first, ``worst`` the most workers that had one and the same task, ``empty`` the pops that came
    back with nothing although there was work for all.
    """

    claims: int
    tasks: int
    double: int
    worst: int
    empty: int


def claims(popped: Iterable[bytes | None]) -> Claims:
    """Count what was popped."""
    counted = Counter(popped)
    empty = counted.pop(None, 0)
    total = sum(counted.values())
    return Claims(
        total, len(counted), total - len(counted), max(counted.values(), default=0), empty
    )


def race(server: RedisServer, way: str, workers: int, rounds: int, gap: float) -> Claims:
    """Let ``workers`` threads, each with a connection, pop together ``rounds`` times.

    There is a task for every pop. Raises BenchError when a worker fails.
    """
    barrier = threading.Barrier(workers)
    with POPS[way](server, workers, workers * rounds) as pops:
        taken: list[list[bytes | None]] = [[] for _ in pops]
        failed: list[BaseException] = []

        def work(pop: Pop, kept: list[bytes | None]) -> None:
            try:
                for _ in range(rounds):
                    barrier.wait(PATIENCE)
                    kept.append(pop(gap))
            except threading.BrokenBarrierError:
                pass  # another one failed and says why
            except Exception as error:  # noqa: BLE001 - told below
                failed.append(error)
                barrier.abort()

        threads = [
            threading.Thread(target=work, args=each) for each in zip(pops, taken, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failed:
        raise BenchError(f"race, {way}: {failed[0]}")
    found = claims(one for kept in taken for one in kept)
    if found.claims + found.empty != workers * rounds:
        raise BenchError(f"race, {way}: {found.claims} claims in {workers * rounds} pops")
    return found
