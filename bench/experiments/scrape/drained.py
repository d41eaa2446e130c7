"""What metrics cost a worker that empties a queue: on and off in turns within one process."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

from bench.experiments.drain.run import drain
from bench.experiments.scrape.target import PORT
from bench.experiments.scrape.worker_app import KINDS, TURNS, VARIABLE, Block, Plan
from bench.harness.arms import TQArm
from bench.harness.errors import BenchError
from tq_celery.embedded import free_port

__all__ = ["Drain", "Share", "drained", "ratios", "shares", "whole_rounds"]

#: Share of the tasks after which the end of the queue may be near.
NEARLY = 0.95


@dataclass(frozen=True, slots=True)
class Share:
    """What the blocks of one kind did: tasks a second, CPU microseconds of a task."""

    rate: float
    cpu_us: float


@dataclass(frozen=True, slots=True)
class Drain:
    """One drain: the shares of all its rounds by kind, and the median round's ratios to ``off``."""

    shares: dict[str, Share]
    ratios: dict[str, Share]
    rounds: int


def drained(arm: TQArm, tasks: int, pool: str, block: float, every: float) -> Drain:
    """Empty a queue of no-op tasks in blocks of ``block`` s; scrape every ``every`` s of ``on``.

    Raises BenchError when the drain is not whole, or holds no round that is.
    """
    leader, worker = free_port(), free_port()
    with tempfile.TemporaryDirectory(prefix="bench-scrape-") as folder:
        file = Path(folder) / "blocks"
        plan = Plan(block, every, (leader, worker), str(file))
        drain(
            replace(arm, app="bench.experiments.scrape.worker_app"), pool, tasks,
            envs=(
                {PORT: str(leader)},
                {PORT: str(worker), VARIABLE: json.dumps(asdict(plan))},
            ),
        )  # fmt: skip
        if not file.exists():
            raise BenchError("the worker did not begin to take turns")
        blocks = [Block(**json.loads(line)) for line in file.read_text().splitlines()]
    rounds = whole_rounds(blocks, tasks)
    if not rounds:
        raise BenchError(f"{tasks} tasks are over within a round of {len(TURNS)} blocks: use more")
    return Drain(shares([each for turn in rounds for each in turn]), ratios(rounds), len(rounds))


def whole_rounds(blocks: Sequence[Block], tasks: int) -> list[Sequence[Block]]:
    """Return the rounds between the first, in which the worker gets going, and the queue's end."""
    size = len(TURNS)
    rounds = [blocks[at : at + size] for at in range(size, len(blocks) - size + 1, size)]
    return [each for each in rounds if each[-1].done < tasks * NEARLY]


def ratios(rounds: Sequence[Sequence[Block]]) -> dict[str, Share]:
    """Return the median of the rounds' ratios of each kind to ``off``: a hiccup is in one round."""
    found = [shares(each) for each in rounds]
    return {
        kind: Share(
            median(each[kind].rate / each["off"].rate for each in found),
            median(each[kind].cpu_us / each["off"].cpu_us for each in found),
        )
        for kind in KINDS
    }


def shares(blocks: Sequence[Block]) -> dict[str, Share]:
    """Return what the blocks of each kind did together."""
    found = {}
    for kind in KINDS:
        mine = [each for each in blocks if each.kind == kind]
        tasks = sum(each.tasks for each in mine)
        cpu = sum(each.worker + each.server for each in mine)
        found[kind] = Share(tasks / sum(each.seconds for each in mine), cpu / tasks * 1e6)
    return found
