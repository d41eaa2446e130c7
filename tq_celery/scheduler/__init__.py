"""The scheduler: elects a leader, ranks what arrives and hands it out as fast as slots free up."""

from __future__ import annotations

from tq_celery.scheduler.service import Scheduler

__all__ = ["Scheduler"]
