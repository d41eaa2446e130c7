"""Which arms of a comparison this machine can run: one that cannot be is left out, and said so."""

from __future__ import annotations

from collections.abc import Sequence

from bench.harness.arms import Arm
from bench.harness.errors import BenchError
from bench.harness.lab import Lab
from bench.harness.report import progress

__all__ = ["not_run", "rivals"]


def rivals(lab: Lab, names: Sequence[str]) -> tuple[list[Arm], dict[str, str]]:
    """Return the arms called ``names`` in their order, and by name why some cannot be run.

    Raises BenchError when none can.
    """
    arms: list[Arm] = []
    missing: dict[str, str] = {}
    for name in dict.fromkeys(names):
        try:
            arms.append(lab.arm(name))
        except BenchError as error:
            missing[name] = error.message
            progress(f"without {name}: {error.message}")
    if missing and not arms:
        raise BenchError("; ".join(missing.values()))
    return arms, missing


def not_run(missing: dict[str, str]) -> list[str]:
    """Return a line for the report about each arm that was left out."""
    return [f"not run: {name}: {reason}" for name, reason in missing.items()]
