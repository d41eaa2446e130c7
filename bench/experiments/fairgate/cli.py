"""``python -m bench fairgate``: both arms in turn, the windows, and the verdict over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from bench.experiments.fairgate.gate import BOUNDS, Rule, judge, refusals
from bench.experiments.fairgate.observe import Observation, observe
from bench.experiments.fairgate.run import SLOTS, WORKERS, contend, plan, shares
from bench.harness import environment
from bench.harness.arms import ARMS
from bench.harness.cell_options import Word
from bench.harness.errors import BenchError
from bench.harness.lab import Lab
from bench.harness.measure import spread
from bench.harness.options import common, server_kind
from bench.harness.options import repetitions as repetitions_option
from bench.harness.report import emit, progress, table
from bench.harness.turns import turns

__all__ = ["command"]

#: Least and greatest length of the window in seconds.
SHORTEST, LONGEST = 1.0, 4.0


@click.command("fairgate")
@repetitions_option(3)
@click.option(
    "--arm", default="tq-wfq", show_default=True, type=Word(ARMS), metavar="ARM", help="Judged."
)
@click.option(
    "--baseline", default="redis-priority", show_default=True, type=Word(ARMS), metavar="ARM",
    help="What it is judged against.",
)  # fmt: skip
@click.option(
    "--window", nargs=2, default=(1.0, 4.0), show_default=True, type=float,
    help="First and last second of the observation.",
)  # fmt: skip
@click.option(
    "--load", type=click.FloatRange(0.01),
    help="Work offered per slot second; by default what the tenants ask for, about five.",
)  # fmt: skip
@click.option("--seed", default=1, show_default=True, type=int)
@server_kind
@common
def command(
    repetitions: int,
    arm: str,
    baseline: str,
    window: tuple[float, float],
    load: float | None,
    seed: int,
    server: str,
    as_json: bool,
    save: Path | None,
) -> None:
    """Judge by a contended window whether an arm shares by weight, against stock priorities."""
    begin, end = window
    if begin < 0 or not SHORTEST <= end - begin <= LONGEST:
        raise BenchError(
            f"--window {begin:g} {end:g}: not a window of {SHORTEST:g} to {LONGEST:g} seconds"
        )
    if arm == baseline:
        raise BenchError(f"--arm and --baseline are both {arm}: compare two arms")
    start = environment.describe()
    weights = shares(plan(seed, end, load))
    seen: dict[str, list[Observation]] = {arm: [], baseline: []}
    with Lab(server) as lab:
        for repetition, name in turns(repetitions, list(seen)):
            run = contend(lab, name, seed, repetition, end, load)
            looked = observe(run.rows, weights, begin, end)
            seen[name].append(looked)
            progress(
                f"fairgate {repetition + 1}/{repetitions} {name}: Jain {looked.jain:.3f}, "
                f"{looked.rate:.1f} tasks/s"
            )
        servers = list(lab.versions.values())
    refused = {
        f"repetition {number} {name}": why
        for name, windows in seen.items()
        for number, one in enumerate(windows)
        if (why := refusals(one))
    }
    judged = [
        [] if any(refusals(one) for one in pair) else judge(*pair, SLOTS)
        for pair in zip(seen[arm], seen[baseline], strict=True)
    ]
    passed = not refused and all(rule.passed for rules in judged for rule in rules)
    emit(
        _text(seen, judged, refused, passed),
        {
            "experiment": "fairgate",
            "passed": passed,
            "refused": refused,
            "rules": [[{**asdict(rule), "passed": rule.passed} for rule in of] for of in judged],
            "summary": _summary(judged),
            "windows": {name: [asdict(one) for one in of] for name, of in seen.items()},
            "bounds": asdict(BOUNDS),
            "load": {
                "window": window, "offered": load, "seed": seed, "slots": SLOTS,
                "workers": WORKERS, "weights": weights,
            },
            "repetitions": repetitions,
            "environment": {**start, "servers": servers},
        },
        as_json,
        save,
    )  # fmt: skip
    if not passed:
        raise BenchError(_verdict(judged, refused))


def _summary(judged: Sequence[Sequence[Rule]]) -> list[dict[str, object]]:
    """Return one flat object a rule: its figure over the repetitions that were judged."""
    return [
        {
            "rule": same[0].name,
            **spread([rule.measured for rule in same])._asdict(),
            "bound": f"{same[0].sign} {same[0].bound:g}",
            "passed": f"{sum(rule.passed for rule in same)} of {len(judged)}",
        }
        for same in zip(*(rules for rules in judged if rules), strict=True)
    ]


def _verdict(judged: Sequence[Sequence[Rule]], refused: dict[str, list[str]]) -> str:
    if refused:
        where, why = next(iter(refused.items()))
        return f"the window cannot be judged: {where}: {why[0]}"
    number, rule = next(
        (number, rule) for number, of in enumerate(judged) for rule in of if not rule.passed
    )
    return (
        f"the gate is not passed: repetition {number}: {rule.name} is {rule.measured:.2f}, "
        f"not {rule.sign} {rule.bound:g}"
    )


def _text(
    seen: dict[str, list[Observation]],
    judged: Sequence[Sequence[Rule]],
    refused: dict[str, list[str]],
    passed: bool,
) -> str:
    headers = ["arm", "rep", "Jain", "tasks/s", "cost/s", "busy", "peak", "starved", "longest gap",
               "starts by tenant", "backlogged"]  # fmt: skip
    windows = table(
        headers,
        [
            [
                name, number, one.jain, one.rate, one.cost_rate, one.busy, one.peak,
                sum(one.starved.values()), max(one.gap.values()),
                " ".join(f"{tenant} {count}" for tenant, count in one.starts.items()),
                f"{min(one.backlogged.values()):.0%}",
            ]
            for name, of in seen.items()
            for number, one in enumerate(of)
        ],
    )  # fmt: skip
    rules = [list(line.values()) for line in _summary(judged)]
    lines = [windows, ""]
    if rules:
        lines += [table(["rule", "median", "min", "max", "bound", "passed"], rules), ""]
    lines += [f"refused: {where}: {each}" for where, why in refused.items() for each in why]
    return "\n".join([*lines, "passed" if passed else "NOT passed"])
