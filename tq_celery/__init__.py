"""Fair scheduling for Celery: decorated tasks pass through a fenced central scheduler.

::

    app = Celery("proj", broker="amqp://")
    tq = TQ(app, "redis://localhost:6379/0")

    @tq.task(tenant="account_id", cost=2.0)
    def report(account_id): ...
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
else:
    #: Where each name comes from. It is imported when it is first used: pytest loads the plugin in
    #: this package in every project whose environment has it, and Celery takes a fifth of a second.
    _MODULES = {
        "TQ": "app",
        "TQTask": "task",
        "Settings": "settings",
        "const": "options",
        "tenant": "effective",
    }

    def __getattr__(name):
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        found = getattr(import_module(f"tq_celery.{_MODULES.get(name, 'errors')}"), name)
        return globals().setdefault(name, found)

    def __dir__():
        return sorted({*globals(), *__all__})


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
