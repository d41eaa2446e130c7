"""The application of a replay's worker processes: ``celery -A tq_celery.replay.worker worker``."""

from __future__ import annotations

from typing import Any

from celery.signals import worker_ready

from tq_celery.replay.arm import Arm, build_app
from tq_celery.replay.nap import note

__all__ = ["app"]

app, task = build_app(Arm.from_environ())


@worker_ready.connect
def say_ready(**_: Any) -> None:
    """Tell the engine that this worker takes tasks."""
    note("R 0 0")
