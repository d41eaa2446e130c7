"""A scheduler with a fault, and perhaps without a guard: a process of its own.

``python -m bench.experiments.guards.scheduler FAULTS``, the JSON of :class:`Faults`; its settings
are in the environment as those of ``tq scheduler``.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tq_celery.scheduler.service as service
from bench.experiments.guards.patches import install
from tq_celery.scheduler.leader import Leadership
from tq_celery.scheduler.stores import BLOCKING, TIMEOUT
from tq_celery.settings import Settings
from tq_celery.store.client import connect
from tq_celery.store.contract import Admission, Ingress
from tq_celery.store.redis_store import RedisStore

__all__ = ["Faults", "program"]


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong, and which guard is gone.

    ``freeze``: while this file exists the next dispatch freezes the process after it has looked at
    its clock and before the call is sent; the file with ``-answered`` appended tells that it has
    been answered. ``die``: the process kills itself ``before`` or ``after`` its first call that
    admits. ``election``: the address by which the lease is renewed. ``patch``: a name of
    :data:`~.patches.PATCHES`. ``trusting``: it leads until told otherwise, however long ago it
    renewed. ``take``: what is read from ingress is removed there.
    """

    freeze: str = ""
    die: str = ""
    election: str = ""
    patch: str = ""
    trusting: bool = False
    take: bool = False


def program(faults: Faults) -> tuple[str, ...]:
    """Return the interpreter's arguments of a scheduler with these faults."""
    return ("-m", "bench.experiments.guards.scheduler", json.dumps(asdict(faults)))


class Trusting(Leadership):
    """Believes in its term without an end: the trust window is gone."""

    def epoch(self) -> int:
        """Return the epoch of the last term, however long ago it was renewed."""
        return self._term.epoch


class FaultyStore(RedisStore):
    """The store of one loop, with the process's faults."""

    faults: Faults

    def admit(self, epoch: int, generation: int, items: Sequence[Admission]) -> int:
        """Admit, and die as planned."""
        if self.faults.die == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        moved = super().admit(epoch, generation, items)
        if self.faults.die == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return moved

    def read_ingress(self, cursor: bytes, count: int, timeout: int) -> Ingress:
        """Read, and remove what was read if that is the fault."""
        read = super().read_ingress(cursor, count, timeout)
        if self.faults.take and read.arrivals:
            self.client.xdel(self.keys.name("ingress"), *[each.entry for each in read.arrivals])
        return read

    def _fenced_call(self, script: str, epoch: int, *args: Any) -> Any:
        arm = Path(self.faults.freeze or os.devnull)
        armed = bool(self.faults.freeze) and script == "dispatch" and arm.exists()
        if armed:
            arm.unlink()
            os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(0.5)  # the stop reaches this thread a moment after the call returns
        try:
            return super()._fenced_call(script, epoch, *args)
        finally:
            if armed:
                Path(f"{arm}-answered").touch()


def main(faults: Faults) -> None:
    """Run until it is ended."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    settings = Settings.load()
    if faults.patch:
        install(faults.patch)
    if faults.trusting:
        vars(service)["Leadership"] = Trusting

    def open_store(settings: Settings, timeout: float) -> FaultyStore:
        # the election's store is the one that waits for a share of the TTL only
        url = settings.url if timeout == TIMEOUT or not faults.election else faults.election
        store = FaultyStore(
            connect(url, timeout=timeout),
            settings.namespace,
            settings=settings,
            blocking=connect(url, timeout=timeout, blocking=BLOCKING),
        )
        store.faults = faults
        return store

    service.Scheduler(settings, open_store).run()


if __name__ == "__main__":
    main(Faults(**json.loads(sys.argv[1])))
