"""``python -m bench soak``."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

import click

from bench.experiments.soak.chart import draw
from bench.experiments.soak.run import Findings, Plan, soak
from bench.harness import environment
from bench.harness.options import common
from bench.harness.report import emit, table

__all__ = ["command"]


@click.command("soak")
@click.option("--seconds", default=600.0, show_default=True, type=click.FloatRange(20))
@click.option("--load", default=0.6, show_default=True, type=click.FloatRange(0.05, 1.0))
@click.option("--seed", default=1, show_default=True)
@click.option("--server-every", default=60.0, show_default=True, type=click.FloatRange(10))
@click.option(
    "--everysec-kill", is_flag=True,
    help="At the end kill the server under appendfsync everysec; what that loses is reported.",
)  # fmt: skip
@click.option(
    "--chart", type=click.Path(dir_okay=False, path_type=Path), help="Draw the run as a PNG."
)
@common
def command(
    seconds: float,
    load: float,
    seed: int,
    server_every: float,
    everysec_kill: bool,
    chart: Path | None,
    as_json: bool,
    save: Path | None,
) -> None:
    """Keep killing workers, leaders and the server while tasks flow, and balance the books."""
    plan = replace(
        Plan(), seconds=seconds, load=load, seed=seed, server_every=server_every,
        everysec_kill=everysec_kill,
    )  # fmt: skip
    start = environment.describe()
    findings = soak(plan)
    if chart is not None:
        draw(findings, plan, chart)
    found = findings.account
    counts = Counter(fault.kind for fault in findings.faults)
    rows: list[list[object]] = [
        ["tasks, retries included", found.tasks],
        ["lost", len(found.lost)],
        ["settled twice", len(found.settled_twice)],
        ["settled with another outcome", len(found.wrong_outcome)],
        ["executed again after a fault", found.duplicates - len(found.unexplained)],
        ["executed again without one", len(found.unexplained)],
        ["left in a structure", sum(found.left.values())],
        *[[kind, number] for kind, number in sorted(counts.items())],
    ]
    verdict = "passed" if found.passed else "FAILED"
    emit(
        table(["", "number"], rows) + f"\n{verdict}",
        {
            "experiment": "soak",
            "passed": found.passed,
            "plan": asdict(plan),
            "rate": plan.rate,
            "account": asdict(found),
            "faults": dict(counts),
            "settled": findings.settled,
            "environment": start,
        },
        as_json,
        save,
    )
    if not found.passed and not everysec_kill:
        raise click.ClickException(f"the soak failed: {_first(findings)}")


def _first(findings: Findings) -> str:
    found = findings.account
    for word in ("lost", "settled_twice", "wrong_outcome", "unexpected", "unexplained"):
        several = getattr(found, word)
        if several:
            return f"{len(several)} {word.replace('_', ' ')}, the first {several[0]}"
    return f"left over: { ({name: size for name, size in found.left.items() if size}) }"
