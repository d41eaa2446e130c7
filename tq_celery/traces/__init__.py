"""Readers of recorded workloads: files in, a stream of :class:`Job` out, in constant memory."""

from tq_celery.traces.csv_trace import CsvColumns, read_csv
from tq_celery.traces.job import Job, Skips
from tq_celery.traces.swf import read_swf

__all__ = ["CsvColumns", "Job", "Skips", "read_csv", "read_swf"]
