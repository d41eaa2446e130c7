"""For the tests of an application: what it submits, and a scheduler and worker to run it.

:func:`record` needs no server: it keeps what an application submits, for assertions.
:func:`start` runs a scheduler and a worker in this process. The pytest plugin
(:mod:`tq_celery.pytest_plugin`, found by itself) makes fixtures of both.
"""

from tq_celery.testing.doubles import NotRunError
from tq_celery.testing.live import Running, start, start_scheduler
from tq_celery.testing.recorder import Recorder, record
from tq_celery.testing.submitted import Submitted

__all__ = [
    "NotRunError", "Recorder", "Running", "Submitted", "record", "start", "start_scheduler",
]  # fmt: skip
