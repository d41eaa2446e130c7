"""How many repetitions are needed: how far the median moves when there are more of them. Pure.

Of all repetitions, ``n`` are drawn without replacement, many times over; the *shift* of a draw is
how far its median is from the median of all, as a share of that. Reported is the median shift of
the draws. No interval is estimated: of five values that would say little, and its coverage could
only be checked against a truth that nobody knows.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence

from bench.harness.summary import CellSummary
from bench.harness.verdicts.readings import dominant_p95, miss_rate, p99, quiet_p95, throughput
from bench.harness.verdicts.verdict import Verdict

__all__ = ["COUNTS", "ENOUGH", "FEW", "median_shift", "verdicts"]

#: Repetitions that are drawn; the first that interests is the number that the lab uses.
FEW, COUNTS = 5, (1, 3, 5, 10, 15, 20)
#: Shift at :data:`FEW` repetitions up to which they are enough.
ENOUGH = 0.05
#: Draws of each size, and the seed of all of them.
DRAWS, SEED = 2_000, 1

Reading = Callable[[CellSummary], float | None]


def median_shift(values: Sequence[float], count: int) -> float | None:
    """Return the median shift of ``count`` of the values, as a share; None if they are 0 or fewer.

    The same values in the same order give the same answer: the draws are seeded.
    """
    if count > len(values):
        return None
    whole = statistics.median(values)
    if whole == 0:
        return None
    chance = random.Random(SEED)
    return statistics.median(
        abs(statistics.median(chance.sample(values, count)) / whole - 1) for _ in range(DRAWS)
    )


def _real(reading: Callable[[CellSummary, bool], float | None]) -> Reading:
    return lambda cell: reading(cell, False)


def _beside_ideal(reading: Callable[[CellSummary, bool], float | None]) -> Reading:
    def ratio(cell: CellSummary) -> float | None:
        real, ideal = reading(cell, False), reading(cell, True)
        return None if real is None or not ideal else real / ideal

    return ratio


#: What is estimated: figures, and figures over those of the ideal server of the same seed.
FIGURES: tuple[tuple[str, Reading], ...] = tuple(
    (f"{name}{suffix}", how(reading))
    for name, reading in (
        ("p99", p99),
        ("throughput", throughput),
        ("missed deadlines", miss_rate),
        ("small tenants' p95", quiet_p95),
        ("dominant tenant's p95", dominant_p95),
    )
    for suffix, how in (("", _real), (" / the ideal server's", _beside_ideal))
)


def verdicts(summaries: Sequence[CellSummary]) -> list[Verdict]:
    """Return for each kind of cell and each figure the shift at :data:`FEW` repetitions.

    ``why`` has the shifts at other numbers of repetitions. It takes more than twice as many
    repetitions as are asked about to judge: what few are drawn from has to be more.
    """
    kinds: dict[str, list[CellSummary]] = {}
    for each in summaries:
        if each.counts:
            kind = f"{each.cell.arm.removeprefix('tq-')}, {each.cell.workload}"
            kinds.setdefault(kind, []).append(each)
    return [
        verdict
        for kind, cells in kinds.items()
        for name, reading in FIGURES
        if (verdict := _verdict(f"{kind}: {name}", [reading(cell) for cell in cells])) is not None
    ]


def _verdict(name: str, figures: Sequence[float | None]) -> Verdict | None:
    values = [value for value in figures if value is not None]
    if not values:
        return None
    shifts = {count: median_shift(values, count) for count in COUNTS if count < len(values)}
    shift = shifts.get(FEW)
    why = "median shift from all repetitions: " + ", ".join(
        f"{count} {shift:.2%}" for count, shift in shifts.items() if shift is not None
    )
    enough = shift is not None and len(values) > 2 * FEW
    if not enough:
        why = f"needs more than {2 * FEW} repetitions and figures that are not 0"
    return Verdict(
        name=f"{name}, median shift of {FEW} repetitions",
        measured=shift,
        least=None,
        greatest=None,
        ideal=None,
        bound=f"at most {ENOUGH:g}",
        repetitions=len(values),
        outcome="not judged" if not enough else "pass" if (shift or 0.0) <= ENOUGH else "fail",
        why=why,
    )
