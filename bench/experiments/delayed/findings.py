"""What was found of one arm in each repetition, and the medians of it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.experiments.delayed.run import Burst, Memory
from bench.harness.measure import percentile

__all__ = ["Findings", "summed_up"]


@dataclass(frozen=True, slots=True)
class Findings:
    """Memory by process, milliseconds by which each task started late, and the burst."""

    memory: dict[str, Memory]
    late: list[float]
    burst: Burst


def summed_up(kept: Sequence[Findings]) -> dict[str, Any]:
    """Return medians over the repetitions; ``early`` is a sum, ``runs`` has each repetition."""
    runs = [_one(each) for each in kept]
    middle = {part: _medians([run[part] for run in runs]) for part in ("late_ms", "burst")}
    memory = {name: _medians([run["memory"][name] for run in runs]) for name in runs[0]["memory"]}
    return {
        "memory": memory, **middle, "early": sum(run["early"] for run in runs), "runs": runs,
        "raw_late_ms": [[round(late, 2) for late in each.late] for each in kept],
    }  # fmt: skip


def _one(found: Findings) -> dict[str, Any]:
    return {
        "memory": {
            name: {**asdict(each), "growth": each.growth} for name, each in found.memory.items()
        },
        "late_ms": {f"p{q}": percentile(found.late, q) for q in (50, 99, 100)},
        "early": sum(each < 0 for each in found.late),
        "burst": asdict(found.burst),
    }


def _medians(several: Sequence[dict[str, float]]) -> dict[str, float]:
    return {word: statistics.median(each[word] for each in several) for word in several[0]}
