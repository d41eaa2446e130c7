"""Fair scheduling for Celery: decorated tasks pass through a fenced central scheduler.

::

    app = Celery("proj", broker="amqp://")
    tq = TQ(app, "redis://localhost:6379/0")

    @tq.task(tenant="account_id", cost=2.0)
    def report(account_id): ...
"""

from tq_celery.app import TQ
from tq_celery.effective import tenant
from tq_celery.errors import (
    BulkError,
    DuplicateTaskError,
    OptionError,
    PayloadTooLargeError,
    QueueFullError,
    SettingsError,
    StoreError,
    StoreUnavailableError,
    SubmitError,
    TQError,
    UnsupportedTaskError,
)
from tq_celery.options import const
from tq_celery.settings import Settings
from tq_celery.task import TQTask

__all__ = [
    # attaching and declaring
    "TQ",
    "TQTask",
    "Settings",
    "const",
    "tenant",
    # what a call may raise
    "BulkError",
    "DuplicateTaskError",
    "OptionError",
    "PayloadTooLargeError",
    "QueueFullError",
    "SettingsError",
    "StoreError",
    "StoreUnavailableError",
    "SubmitError",
    "TQError",
    "UnsupportedTaskError",
]  # fmt: skip
