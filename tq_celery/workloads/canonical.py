"""A workload as bytes: the same on every machine, whatever made it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from tq_celery.workloads.arrivals import MICROSECONDS
from tq_celery.workloads.work import Work

__all__ = ["canonical_bytes", "digest"]


def canonical_bytes(works: Iterable[Work]) -> bytes:
    """Return one line of JSON per task; all numbers as whole millionths."""
    return b"".join(_line(work) for work in works)


def digest(works: Iterable[Work]) -> str:
    """Return the SHA-256 of :func:`canonical_bytes`, in hexadecimal."""
    found = hashlib.sha256()
    for work in works:
        found.update(_line(work))
    return found.hexdigest()


def _line(work: Work) -> bytes:
    deadline = None if work.deadline is None else round(work.deadline * MICROSECONDS)
    fields = [
        work.job,
        round(work.at * MICROSECONDS),
        round(work.seconds * MICROSECONDS),
        work.tenant,
        round(work.cost * MICROSECONDS),
        work.priority,
        deadline,
    ]
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"
