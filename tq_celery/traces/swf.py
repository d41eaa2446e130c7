"""Standard Workload Format 2.2, the format of the Parallel Workloads Archive.

``;`` starts a comment line; every other line has 18 white-space separated numbers, of which this
reader takes field 2 (submit time, s), 4 (run time, s) and 12 (user). ``-1`` means "not known".
Definition: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tq_celery.errors import TraceError
from tq_celery.traces.job import Job, Skips
from tq_celery.traces.lines import number, numbered_lines

__all__ = ["read_swf"]

_FIELDS = 18
_SUBMIT, _RUN_TIME, _USER = 1, 3, 11


def read_swf(path: str | Path, skips: Skips | None = None) -> Iterator[Job]:
    """Yield the jobs of ``path`` in file order; a user is a tenant (``user-7``).

    Lines that are no job with a known run time are counted in ``skips``. Raises TraceError when
    the file is broken, or has no job at all.
    """
    skips = Skips(str(path)) if skips is None else skips
    base: float | None = None
    latest, line = 0.0, 0
    for line, text in numbered_lines(path):
        if not text.strip() or text.lstrip().startswith(";"):
            continue
        fields = text.split()
        if len(fields) != _FIELDS:
            skips.add(line, "malformed", f"{len(fields)} fields instead of {_FIELDS}")
            continue
        try:
            submit, run_time = number(fields[_SUBMIT]), number(fields[_RUN_TIME])
            user = int(number(fields[_USER]))
        except ValueError as error:
            skips.add(line, "malformed", str(error))
            continue
        if run_time < 0:
            reason = "run time unknown" if run_time == -1 else "negative run time"
            skips.add(line, reason, f"run time {fields[_RUN_TIME]}")
            continue
        if submit < 0:
            reason = "submit time unknown" if submit == -1 else "negative submit time"
            skips.add(line, reason, f"submit time {fields[_SUBMIT]}")
            continue
        base = submit if base is None else base
        if submit - base < latest:
            skips.add(line, "out of order", "submitted before the job above it")
            continue
        latest = submit - base
        yield Job(latest, run_time, f"user-{user}" if user >= 0 else "user-unknown", run_time)
    if base is None:
        raise no_jobs(str(path), line, skips)


def no_jobs(path: str, line: int, skips: Skips) -> TraceError:
    """Return the error for a file without one usable job, naming the first line left out."""
    first = skips.first()
    if first is None:
        return TraceError(path, line, "the file has no job")
    return TraceError(path, first[0], f"the file has no usable job; here {first[1]}")
