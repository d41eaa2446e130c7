"""What fair scheduling gains and costs against each stock arm: published, without bounds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from bench.harness.verdicts.cells import Repetition
from bench.harness.verdicts.readings import quiet_p95, ratio, throughput
from bench.harness.verdicts.verdict import Measured, Rule

__all__ = ["OURS", "rules"]

#: The arm that stock arms are compared with.
OURS = "tq-wfq"


def rules(stock: Sequence[str], workloads: Sequence[str]) -> list[Rule[Repetition]]:
    """Return the figures for the stock arms and workloads that were run."""
    found: list[Rule[Repetition]] = []
    for arm in stock:
        if "multi_tenant" in workloads:
            found.append(
                Rule(
                    f"multi_tenant: small tenants' p95, {arm} / {OURS}",
                    f"{arm} and {OURS} on multi_tenant", partial(_waiting, arm=arm),
                )
            )  # fmt: skip
        for workload in workloads:
            found.append(
                Rule(
                    f"{workload}: throughput, {OURS} / {arm}", f"{arm} and {OURS} on {workload}",
                    partial(_speed, arm=arm, workload=workload),
                )
            )  # fmt: skip
    return found


def _waiting(cells: Repetition, arm: str) -> Measured | None:
    return ratio(cells.get(arm, "multi_tenant"), cells.get(OURS, "multi_tenant"), quiet_p95)


def _speed(cells: Repetition, arm: str, workload: str) -> Measured | None:
    return ratio(cells.get(OURS, workload), cells.get(arm, workload), throughput)
