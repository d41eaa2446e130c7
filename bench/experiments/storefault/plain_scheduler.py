"""``tq scheduler`` with epochs from the server's counters alone: nobody remembers one beyond it.

Run as ``python -m bench.experiments.storefault.plain_scheduler``. The election script counts on
from ``epoch`` and ``fence`` and looks at nothing else; schedulers name no floor, and do not find
out that an epoch of theirs was in use before.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace

from bench.harness.errors import BenchError
from tq_celery.cli import main
from tq_celery.scheduler.epochs import Epochs
from tq_celery.store.scripts import SCRIPTS, Script

__all__ = ["counting_on"]

#: What the election script asks, and what it asks here.
WITNESSES = "newest_epoch(ARGV[3]) + 1"
COUNTERS = (
    "math.max(tonumber(redis.call('GET', key('epoch')) or '0'), "
    "tonumber(redis.call('GET', key('fence')) or '0')) + 1"
)


def counting_on(script: Script) -> Script:
    """Return the election script with its counters in the place of all witnesses.

    Raises BenchError unless it asks them exactly once: else nothing is taken away unseen.
    """
    if script.text.count(WITNESSES) != 1:
        raise BenchError(f"script {script.name} does not look for epochs in the expected form")
    text = script.text.replace(WITNESSES, COUNTERS)
    return replace(script, text=text, sha=hashlib.sha1(text.encode()).hexdigest())


def _deaf(self: Epochs, epoch: int) -> bool:
    return False


def _careless(self: Epochs, epoch: int, workers: object) -> str:
    return ""


if __name__ == "__main__":
    SCRIPTS["elect"] = counting_on(SCRIPTS["elect"])
    Epochs.heard = _deaf  # type: ignore[method-assign]
    Epochs.is_over = _careless  # type: ignore[method-assign]
    main(["scheduler", *sys.argv[1:]], prog_name="tq")
