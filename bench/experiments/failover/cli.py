"""``python -m bench failover``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from bench.experiments.failover.chart import draw
from bench.experiments.failover.judge import cell, failures
from bench.experiments.failover.plan import ARMS, DEFAULT_TTL, TTLS, Plan
from bench.experiments.failover.run import Found, blocks, torment
from bench.harness import environment
from bench.harness.options import common, server_kind
from bench.harness.report import emit, table
from bench.harness.servers import redis_server

__all__ = ["command"]

USUAL = Plan()


@click.command("failover")
@click.option("--trials", default=USUAL.trials, show_default=True, type=click.IntRange(1))
@click.option("--arm", "arms", multiple=True, type=click.Choice(ARMS), help="Only these.")
@click.option(
    "--ttl", "ttls", multiple=True, type=click.FloatRange(0.5, 60), default=TTLS,
    show_default=True, help="Seconds of the lease; may be given several times.",
)  # fmt: skip
@click.option(
    "--rate", default=USUAL.rate, show_default=True, type=click.FloatRange(10),
    help="Tasks sent per second.",
)  # fmt: skip
@click.option(
    "--seconds", default=USUAL.seconds, show_default=True, type=click.FloatRange(1),
    help="How long a trial of 'none' watches.",
)  # fmt: skip
@click.option(
    "--afterwards", default=USUAL.afterwards, show_default=True, type=click.FloatRange(0.5),
    help="Seconds that a resumed leader gets to misbehave.",
)  # fmt: skip
@click.option("--seed", default=USUAL.seed, show_default=True)
@click.option(
    "--untimed", is_flag=True, help="Report the times without judging them: on a busy machine."
)
@click.option(
    "--chart", type=click.Path(dir_okay=False, path_type=Path), help="Draw the trials as a PNG."
)
@server_kind
@common
def command(
    trials: int,
    arms: tuple[str, ...],
    ttls: tuple[float, ...],
    rate: float,
    seconds: float,
    afterwards: float,
    seed: int,
    untimed: bool,
    chart: Path | None,
    server: str,
    as_json: bool,
    save: Path | None,
) -> None:
    """How long does dispatch stand still when the leader stops, is killed, or freezes?"""
    plan = Plan(trials=trials, rate=rate, seconds=seconds, afterwards=afterwards, seed=seed)
    start = environment.describe()
    found: dict[str, dict[float, list[Found]]] = {}
    with redis_server(server) as redis:
        for arm in arms or ARMS:
            found[arm] = {}
            for ttl in sorted(set(ttls)):
                found[arm][ttl] = [
                    torment(redis.url(), plan, arm, ttl, numbers)
                    for numbers in blocks(trials, plan.together)
                ]
                redis.client.flushall()  # the next namespace is another one; memory is not endless
        version = redis.version
    cells = {
        arm: {ttl: _cell(ttl, several) for ttl, several in by_ttl.items()}
        for arm, by_ttl in found.items()
    }
    wrong = {
        (arm, ttl): failures(arm, each, goals=not untimed)
        for arm, by_ttl in cells.items() for ttl, each in by_ttl.items()
    }  # fmt: skip
    passed = not any(wrong.values())
    if chart is not None:
        draw(
            {
                arm: {ttl: _trials(several) for ttl, several in by_ttl.items()}
                for arm, by_ttl in found.items()
            },
            chart,
        )
    emit(
        _table(cells, wrong) + f"\n{'passed' if passed else 'FAILED'}",
        {
            "experiment": "failover",
            "passed": passed,
            "failed": {
                f"{arm} {ttl:g} s": words for (arm, ttl), words in wrong.items() if words
            },
            "arms": {arm: _arm(by_ttl) for arm, by_ttl in cells.items()},
            "plan": asdict(plan),
            "raw": [asdict(each) for by_ttl in found.values() for several in by_ttl.values()
                    for cluster in several for each in cluster.trials],
            "environment": {**start, "servers": [version]},
        },
        as_json,
        save,
    )  # fmt: skip
    first = next(((place, words) for place, words in wrong.items() if words), None)
    if first is not None:
        (arm, ttl), words = first
        raise click.ClickException(f"failover, {arm} with a lease of {ttl:g} s: {', '.join(words)}")


def _trials(several: Sequence[Found]) -> list[Any]:
    return [each for cluster in several for each in cluster.trials]


def _cell(ttl: float, several: Sequence[Found]) -> dict[str, Any]:
    return cell(ttl, _trials(several), [words for each in several for words in each.violations])


def _arm(by_ttl: Mapping[float, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures for the default lease (else the first), the others beneath ``ttls``."""
    shown = by_ttl.get(DEFAULT_TTL) or next(iter(by_ttl.values()))
    return {**shown, "ttls": {f"{ttl:g}": dict(each) for ttl, each in by_ttl.items()}}


def _table(
    cells: Mapping[str, Mapping[float, Mapping[str, Any]]],
    wrong: Mapping[tuple[str, float], Sequence[str]],
) -> str:
    def figure(each: Mapping[str, Any], *path: str) -> object:
        value: Any = each
        for word in path:
            value = None if value is None else value[word]
        return "-" if value is None else value

    return table(
        ["arm", "lease s", "trials", "recovered", "median ms", "longest ms", "until free ms",
         "until acted ms", "lost", "twice", "stale", "fenced", "verdict"],
        [
            [arm, f"{ttl:g}", each["trials"], each["recovered"], figure(each, "median_ms"),
             figure(each, "max_ms"), figure(each, "lease_ms", "median"),
             figure(each, "act_ms", "median"), each["lost"], each["duplicates"],
             each["stale_dispatches"], each["fenced_writes"],
             ", ".join(wrong[arm, ttl]) or "passed"]
            for arm, by_ttl in cells.items() for ttl, each in by_ttl.items()
        ],
    )  # fmt: skip
