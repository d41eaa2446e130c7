"""An application whose tenants share the workers: what the Scheduler page is looked at with."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from celery import Celery
from celery.exceptions import Reject

from tq_celery import TQ

#: Environment of its processes, beside the settings' own ``TQ_*``: Celery's broker, and a folder
#: for what the tasks see and leave behind.
BROKER, FOLDER = "SHOP_BROKER", "SHOP_FOLDER"


def build(environ: Mapping[str, str], **settings: Any) -> Celery:
    """Return the application; ``settings`` are given to ``TQ``."""
    app = Celery("shop", broker=environ[BROKER], set_as_current=False)
    app.conf.update(
        broker_connection_retry_on_startup=True,
        task_ignore_result=True,
        task_send_sent_event=True,
        worker_send_task_events=True,
    )
    tq = TQ(app, delivery_budget=2, **settings)
    folder = Path(environ[FOLDER])

    @tq.task(name="shop.resize", tenant="account")
    def resize(account: str, seconds: float) -> None:
        time.sleep(seconds)

    @tq.task(name="shop.ship", tenant="account")
    def ship(account: str, order: int) -> None:
        """Is lost with its worker, as far as anybody can see, until the folder says otherwise."""
        if not (folder / "mended").exists():
            raise Reject("stands for a worker that dies with the task", requeue=True)
        (folder / f"shipped-{order}").write_text(account)

    return app
