"""What the two runs say, in numbers and in one sentence."""

from __future__ import annotations

from dataclasses import dataclass

from tq_celery.demo.workload import FLOOD, QUIET
from tq_celery.replay.engine import Run
from tq_celery.replay.stats import Waits

__all__ = ["Outcome", "Story", "tell"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One tenant in one arm; ``ended`` is when its last task finished, seconds into the run."""

    waits: Waits
    ended: float


@dataclass(frozen=True, slots=True)
class Story:
    """Both arms, tenant by tenant, and the sentence about them."""

    stock: dict[str, Outcome]
    fair: dict[str, Outcome]
    sentence: str


def _outcomes(run: Run) -> dict[str, Outcome]:
    result = {}
    for tenant in (*QUIET, FLOOD):
        mine = [record for record in run.records if record.work.tenant == tenant]
        waits = Waits.of(record.served.wait for record in mine)
        result[tenant] = Outcome(waits, max(record.finished for record in mine) - run.began)
    return result


def tell(stock: Run, fair: Run) -> Story:
    """Compare a run on stock Celery with one through the scheduler."""
    before, after = _outcomes(stock), _outcomes(fair)
    old = max(before[tenant].waits.p95 for tenant in QUIET)
    new = max(after[tenant].waits.p95 for tenant in QUIET)
    gain = f"{old / new:.0f} times less" if new > 0 and old / new >= 2 else "about as long"
    paid_from, paid_to = before[FLOOD], after[FLOOD]
    later = paid_to.ended - paid_from.ended
    paid = f"{later:.1f} s later" if later >= 0.05 else "no later"
    sentence = (
        f"{' and '.join(QUIET)} wait {_said(new)} instead of {_said(old)} (p95), {gain}; "
        f"{FLOOD}, whose flood it is, waits {_said(paid_to.waits.p95)} instead of "
        f"{_said(paid_from.waits.p95)} and is done {paid}."
    )
    return Story(before, after, sentence)


def _said(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
