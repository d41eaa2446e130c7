"""Tasks with a countdown of a second, and how much later than that they started."""

from __future__ import annotations

from pathlib import Path

from bench.experiments.delaydrift.producer import FILE, PAUSE, SECOND
from bench.harness import cluster
from bench.harness.errors import BenchError
from bench.harness.process import until
from bench.harness.standing import Standing

__all__ = ["drift", "lateness"]

PROGRAM = "bench.experiments.delaydrift.producer"
#: Seconds for the tasks to run once they have been sent.
PATIENCE = 60.0


def drift(made: Standing, count: int, pause: float, waiting: int = 0) -> list[float]:
    """Return by how many ms each of ``count`` tasks started after it was due, least first.

    ``pause`` is seconds between two calls, ``waiting`` the tasks that are not due for long and stay
    there. Raises BenchError when a task is lost or runs twice.
    """
    path = made.folder / "timings"
    path.unlink(missing_ok=True)
    path.touch()
    cluster.produce(made.arm, count, program=PROGRAM, env={FILE: str(path), PAUSE: str(pause)})

    def ran() -> bool:
        made.check()
        return len(lateness(path)) >= count and (made.arm.unsettled() or 0) <= waiting

    until(ran, "the tasks with a countdown of a second", SECOND + PATIENCE)
    late = lateness(path)
    if len(late) != count:
        raise BenchError(f"{made.arm.name}: {count} tasks ran {len(late)} times")
    return late


def lateness(path: Path) -> list[float]:
    """Return ms from due to start of every whole line, least first, without what was due at 0."""
    lines = [line.split() for line in path.read_text().split("\n")[:-1]]
    return sorted(
        1000 * (float(started) - float(due)) for due, started, _ in lines if float(due) > 0
    )
