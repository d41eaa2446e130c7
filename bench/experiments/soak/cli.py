"""``python -m bench soak``."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

import click

from bench.experiments.soak.chart import draw
from bench.experiments.soak.run import Findings, Plan, soak
from bench.harness import environment
from bench.harness.options import common, repetitions
from bench.harness.report import emit, progress, table

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
@repetitions(1)
@common
def command(
    seconds: float,
    load: float,
    seed: int,
    server_every: float,
    everysec_kill: bool,
    chart: Path | None,
    repetitions: int,
    as_json: bool,
    save: Path | None,
) -> None:
    """Keep killing workers, leaders and the server while tasks flow, and balance the books."""
    plan = replace(
        Plan(), seconds=seconds, load=load, seed=seed, server_every=server_every,
        everysec_kill=everysec_kill,
    )  # fmt: skip
    start = environment.describe()
    several: list[Findings] = []
    for repetition in range(repetitions):
        several.append(soak(replace(plan, seed=seed + repetition)))
        word = "passed" if several[-1].passed else "FAILED"
        progress(f"soak {repetition + 1}/{repetitions}: {word}")
    if chart is not None:
        draw(several[0], plan, chart)
    passed = all(each.passed for each in several)
    counts = Counter(fault.kind for each in several for fault in each.faults)
    rows: list[list[object]] = [
        ["tasks, retries included", sum(each.account.tasks for each in several)],
        ["lost", sum(len(each.account.lost) for each in several)],
        ["settled twice", sum(len(each.account.settled_twice) for each in several)],
        ["settled with another outcome", sum(len(each.account.wrong_outcome) for each in several)],
        ["executed again after a fault", sum(_explained(each) for each in several)],
        ["executed again without one", sum(len(each.account.unexplained) for each in several)],
        ["left in a structure", sum(sum(each.account.left.values()) for each in several)],
        ["promises broken", sum(len(each.verification.violations) for each in several)],
        *[[kind, number] for kind, number in sorted(counts.items())],
    ]
    emit(
        table(["", "number"], rows) + f"\n{'passed' if passed else 'FAILED'}",
        {
            "experiment": "soak",
            "passed": passed,
            "plan": asdict(plan),
            "rate": plan.rate,
            # the first repetition, and all of them
            "account": asdict(several[0].account),
            "accounts": [asdict(each.account) for each in several],
            "verifications": [each.verification.as_dict() for each in several],
            "faults": dict(counts),
            "settled": several[0].settled,
            "repetitions": repetitions,
            "environment": start,
        },
        as_json,
        save,
    )
    failed = [each for each in several if not each.passed]
    if failed and not everysec_kill:
        raise click.ClickException(f"the soak failed: {_first(failed[0])}")


def _explained(findings: Findings) -> int:
    return findings.account.duplicates - len(findings.account.unexplained)


def _first(findings: Findings) -> str:
    found = findings.account
    for word in ("lost", "settled_twice", "wrong_outcome", "unexpected", "unexplained"):
        several = getattr(found, word)
        if several:
            return f"{len(several)} {word.replace('_', ' ')}, the first {several[0]}"
    for violation in findings.verification.violations:
        return f"{violation.promise}: {violation.id} {violation.message}"
    return f"left over: { ({name: size for name, size in found.left.items() if size}) }"
