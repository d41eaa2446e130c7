"""The ``tq`` command, also mounted as ``celery -A proj tq``; one file per noun.

:mod:`~tq_celery.cli.main` is the entry point. It imports the file of a command only when that
command runs, so that help and completion are fast and a missing extra breaks one command only.
"""

from tq_celery.cli.root import main

__all__ = ["main"]
