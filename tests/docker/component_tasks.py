"""The tasks of the workers that pytest-celery starts, and of the tests that send to them."""

from __future__ import annotations

import time

from celery import shared_task

from tq_celery import TQTask

__all__ = ["ordinary", "slow", "square"]


@shared_task(base=TQTask, tenant="account")
def square(account: str, number: int) -> int:
    """A scheduled task with a result."""
    return number * number


@shared_task(base=TQTask, tenant="account", acks_late=True)
def slow(account: str, number: int) -> int:
    """One that still runs when its worker is killed."""
    time.sleep(1.0)
    return number


@shared_task
def ordinary(number: int) -> int:
    """A task of Celery's, which goes through the broker."""
    return number + 1
