"""One scheduler in a process of its own, for tests that freeze, kill and mislead it.

``python -m tests.chaos.scheduler_process SETTINGS [FAULTS]``, both JSON objects. Faults:

``freeze``
    a script; while the file ``arm`` exists, its next call freezes the process (SIGSTOP) after the
    leader has looked at its clock and before the call is sent. If the fence then refuses the call
    the file ``refused`` is written.
``unfenced``
    the scripts run without the fence's check, to see what it prevents.
``elect``
    every attempt to acquire the lease raises.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
import signal
import sys
import time
from pathlib import Path

from tq_celery.errors import FencedError, StoreUnavailableError
from tq_celery.scheduler import Scheduler
from tq_celery.scheduler.stores import BLOCKING
from tq_celery.settings import Settings
from tq_celery.store.client import connect
from tq_celery.store.redis_store import RedisStore
from tq_celery.store.scripts import SCRIPTS


def remove_fence() -> None:
    """Take the comparison out of every script; this process alone is affected."""
    check = "if epoch < fence then"
    changed = 0
    for name, script in SCRIPTS.items():
        if check in script.text:
            text = script.text.replace(check, "if false then")
            sha = hashlib.sha1(text.encode()).hexdigest()
            SCRIPTS[name] = dataclasses.replace(script, text=text, sha=sha)
            changed += 1
    assert changed >= 4, "the scripts' fence looks different from what this test expects"


class FaultyStore(RedisStore):
    """A store with the faults of the module's docstring."""

    faults: dict[str, str]

    def elect(self, owner, ttl, floor=0):
        if self.faults.get("elect"):
            raise StoreUnavailableError("elect", "made to fail")
        return super().elect(owner, ttl, floor)

    def _fenced_call(self, script, epoch, *args):
        arm = Path(self.faults.get("arm", "/nonexistent"))
        armed = script == self.faults.get("freeze") and arm.exists()
        if armed:
            arm.unlink()
            os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(0.5)  # the stop reaches this thread a moment after the call returns
        try:
            return super()._fenced_call(script, epoch, *args)
        except FencedError:
            if armed:
                Path(self.faults["refused"]).touch()
            raise
        finally:
            if armed:
                Path(self.faults["answered"]).touch()


def main(settings_json: str, faults_json: str = "{}") -> None:
    settings = Settings(**json.loads(settings_json))
    faults = json.loads(faults_json)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    if faults.get("unfenced"):
        remove_fence()

    def open_store(settings: Settings, timeout: float) -> FaultyStore:
        store = FaultyStore(
            connect(settings.url, timeout=timeout),
            settings.namespace,
            settings=settings,
            blocking=connect(settings.url, timeout=timeout, blocking=BLOCKING),
        )
        store.faults = faults
        return store

    Scheduler(settings, open_store).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
