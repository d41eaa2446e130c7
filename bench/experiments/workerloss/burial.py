"""A task that kills its worker every time: it is buried, and the chord it is part of ends."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import redis

from bench.experiments.workerloss.stage import APP, SLOTS, Plan, Stage, staged
from bench.harness.process import Process
from bench.harness.servers import redis_server
from tq_celery.store.record import TaskKey

__all__ = ["BUDGET", "PARTS", "Burial", "burial"]

#: Lost deliveries after which a task is buried.
BUDGET = 3
#: Parts of the chord beside the deadly one.
PARTS = 4
#: Seconds for a new worker to start, in which nobody could have run the task.
START = 20.0


@dataclass(frozen=True, slots=True)
class Burial:
    """What became of the task and its chord.

    ``starts`` of its body, ``workers`` that it took along (none where a child dies for it),
    ``letters`` about it with ``attempts`` and ``reason``, ``bystanders`` buried as well, ``result``
    and ``chord`` the states in the result backend with the kinds of their errors, ``parts`` the
    others that completed, ``summed`` whether the chord's body ran, ``seconds`` from the first start
    to the end of the chord, ``violations`` the promises that ``tq verify`` found broken.
    """

    pool: str
    starts: int
    workers: int
    letters: int
    bystanders: int
    attempts: int
    reason: str
    result: tuple[str, str]
    chord: tuple[str, str]
    parts: int
    summed: bool
    seconds: float
    settled_twice: int
    left: Mapping[str, int]
    violations: Sequence[str]


class _Supervisor:
    """Starts a worker again whenever it has ended, as systemd or Kubernetes would."""

    def __init__(self, stage: Stage, pool: str) -> None:
        self._stage, self._pool = stage, pool
        self.started = 0
        self._process: Process | None = None

    def look(self) -> None:
        if self._process is None or not self._process.alive:
            self.started += 1
            self._process = self._stage.scene.worker(
                self._pool, SLOTS[self._pool], app=APP, wait=False
            )


def burial(pool: str, plan: Plan, label: str) -> Burial:
    """Send the chord and wait for its end; raises BenchError when that does not come."""
    with redis_server(plan.server) as server:
        backend = f"redis://127.0.0.1:{server.port}/2"
        env = {"TQ_DELIVERY_BUDGET": str(BUDGET)}
        with (
            staged(server.url(), plan, env, label, backend) as stage,
            redis.Redis.from_url(backend) as states,
        ):
            stage.scene.scheduler()
            return _bury(stage, states, pool, plan)


def _bury(stage: Stage, states: Any, pool: str, plan: Plan) -> Burial:
    scene, supervisor = stage.scene, _Supervisor(stage, pool)
    stage.chord(PARTS)
    stage.sent()
    names = stage.accepted()
    deadly = next(task_id for task_id, name in names.items() if name == "workerloss.deadly")
    body = next(task_id for task_id, name in names.items() if name == "body")

    def ended() -> bool:
        supervisor.look()
        return _state(states, body)[0] not in ("", "PENDING")

    stage.wait(ended, "the chord to end", (2 * plan.lease + START) * (BUDGET + 1))
    ended_at = time.monotonic()
    scene.drained()
    runs, records = stage.runs(), scene.records()
    starts = sorted(run.started for run in runs if run.key[0] == deadly)
    dead = [fields for _, fields in scene.client.xrange(scene.keys.name("dead"))]
    letters = [each for each in dead if TaskKey.decode(each[b"key"]).id == deadly]
    outcomes = {each.key[0]: each.outcome for each in records}
    return Burial(
        pool,
        starts=len(starts),
        workers=supervisor.started - 1,
        letters=len(letters),
        bystanders=len(dead) - len(letters),
        attempts=max((int(each[b"attempts"]) for each in letters), default=0),
        reason=letters[0][b"reason"].decode() if letters else "",
        result=_state(states, deadly),
        chord=_state(states, body),
        parts=sum(
            outcomes.get(task_id) == "completed"
            for task_id, name in names.items() if name == "workerloss.part"
        ),
        summed=body in {run.key[0] for run in runs},
        seconds=ended_at - starts[0],
        settled_twice=len(records) - len({each.key for each in records}),
        left=scene.left(),
        violations=scene.broken(),
    )  # fmt: skip


def _state(states: Any, task_id: str) -> tuple[str, str]:
    """Return state and kind of error in the result backend; empty words where there is none."""
    raw = states.get(f"celery-task-meta-{task_id}")
    if not raw:
        return "", ""
    meta = json.loads(raw)
    result = meta["result"]
    return meta["status"], str(result.get("exc_type", "")) if isinstance(result, dict) else ""
