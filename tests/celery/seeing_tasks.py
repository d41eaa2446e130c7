"""An application of twins: each task once scheduled (``tq.*``) and once stock (``stock.*``).

What is seen of the first has to be what is seen of the second.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from celery import Celery
from celery.events.snapshot import Polaroid
from celery.exceptions import Reject

from tests.celery.retry_tasks import RETRY_AFTER
from tq_celery import TQ

#: Environment of a worker under test, beside the settings' own ``TQ_*``.
BROKER, BACKEND, CONF, SHOTS = "SEEN_BROKER", "SEEN_BACKEND", "SEEN_CONF", "SEEN_SHOTS"
#: Where a test puts a file for the tasks ``hold`` that it lets go on.
LETS = "SEEN_LETS"


def build(environ: Mapping[str, str], **settings: Any) -> Celery:
    """Return the application; ``settings`` are given to ``TQ``."""
    app = Celery("seen", broker=environ[BROKER], backend=environ[BACKEND], set_as_current=False)
    conf = {
        "broker_connection_retry_on_startup": True,
        "worker_hijack_root_logger": False,
        "task_track_started": True,
        "task_send_sent_event": True,
        "task_acks_late": True,
        "result_extended": True,
    }
    app.conf.update(conf | json.loads(environ.get(CONF, "{}")))
    tq = TQ(app, **settings)

    def twins(name: str, **options: Any) -> Any:
        def declare(function: Any) -> Any:
            app.task(shared=False, name=f"stock.{name}", **options)(function)
            return tq.task(shared=False, name=f"tq.{name}", **options)(function)

        return declare

    @twins("add")
    def add(x: int, y: int) -> int:
        return x + y

    @twins("quiet", ignore_result=True)
    def quiet(fail: bool = False) -> int:
        if fail:
            raise ValueError("as asked")
        return 1

    @twins("nap")
    def nap(seconds: float, text: str = "") -> str:
        time.sleep(seconds)
        return "rested"

    @twins("hold")
    def hold(word: str = "go", text: str = "") -> str:
        """Run until the test lets it go on, or is no more."""
        give_up = time.monotonic() + 150.0
        while not Path(environ[LETS], f"let-{word}").exists() and time.monotonic() < give_up:
            time.sleep(0.02)
        return "rested"

    @twins("fail")
    def fail() -> None:
        raise ValueError("as asked")

    @twins("again", bind=True)
    def again(self) -> str:
        if not self.request.retries:
            raise self.retry(countdown=RETRY_AFTER)
        return "done"

    @twins("refuse")
    def refuse() -> None:
        raise Reject("as asked", requeue=False)

    @twins("parent", bind=True)
    def parent(self) -> str:
        family = self.name.partition(".")[0]
        return str(app.tasks[f"{family}.add"].delay(1, 2).id)

    app.finalize()
    return app


class Camera(Polaroid):
    """Writes each snapshot as a line of JSON to the file that ``SEEN_SHOTS`` names."""

    clear_after = False

    def on_shutter(self, state: Any) -> None:
        shot = {task.uuid: [task.name, task.state] for _, task in state.tasks_by_time()}
        with Path(os.environ[SHOTS]).open("a") as file:
            file.write(json.dumps(shot) + "\n")
