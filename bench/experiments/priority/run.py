"""One run of one arm: everything is there before the worker starts."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from baseline import events as recording
from bench.experiments.priority.order import Order, order
from bench.experiments.priority.producer import SECONDS
from bench.harness import books, cluster
from bench.harness.arms import Arm, TQArm
from bench.harness.errors import BenchError
from bench.harness.events import Event, Tail
from bench.harness.process import until
from tq_celery.store.keys import Keys

__all__ = ["serve"]

#: Seconds for the scheduler to rank everything, and for the worker to start and to run it.
RANKED, RUN = 30.0, 90.0


def serve(arm: Arm, pool: str, count: int, seconds: float) -> Order:
    """Send ``count`` unimportant tasks and then ``count`` critical ones, and let a worker start.

    Raises BenchError when a task is lost, left over or runs twice.
    """
    arm.reset()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-priority-")))
        record = folder / "events"
        record.touch()
        tail = stack.enter_context(contextlib.closing(Tail([record])))
        if arm.scheduled:
            stack.enter_context(cluster.scheduler(arm))
        cluster.produce(
            arm, count, program="bench.experiments.priority.producer", env={SECONDS: str(seconds)}
        )
        if isinstance(arm, TQArm):
            client, keys = arm.server.client, Keys(arm.namespace)
            until(
                lambda: books.counters(client, keys)["pending"] == 2 * count,
                "everything to be ranked", RANKED,
            )  # fmt: skip
        worker = stack.enter_context(
            cluster.worker(arm, pool, prefetch=arm.prefetch, env={recording.VARIABLE: str(record)})
        )
        seen: list[Event] = []

        def over() -> bool:
            worker.check()
            seen.extend(tail.read())
            return sum(event.word == "E" for event in seen) >= 2 * count

        until(over, f"the tasks of {arm.name} to run", RUN + 2 * count * seconds)
        worker.stop()
        seen.extend(tail.read())
        if left := arm.left():
            raise BenchError(f"{arm.name}: {left} tasks are left over")
    try:
        return order(seen, count)
    except ValueError as error:
        raise BenchError(f"{arm.name}: {error}") from error
