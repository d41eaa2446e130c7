"""How ``tq produce`` tells what it will do, how far it is, and what has come of it."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any, TextIO

from tq_celery.cli.durations import format_age
from tq_celery.cli.output import table
from tq_celery.measures import percentile
from tq_celery.produce.follow import Follower, Waits
from tq_celery.produce.offer import Offer
from tq_celery.produce.pace import Submitted
from tq_celery.workloads.registry import weights

__all__ = ["Progress", "Report", "plan_text"]

#: Seconds between two lines on a terminal, and anywhere else.
_OFTEN, _SELDOM = 0.1, 10.0
_WIDTH = 24


def plan_text(offer: Offer, slots: int) -> list[str]:
    """Return what would be submitted, as lines."""
    works = offer.works
    first, last = offer.task_id(0), offer.task_id(len(works) - 1)
    run = f"run {offer.run}: {len(works)} tasks of {offer.workload} in {offer.span:.1f} s"
    longest = max(work.seconds for work in works)
    lines = [
        f"{run}, {first} to {last}",
        f"{offer.seconds:.1f} s of work{_load(offer, slots)}, the longest task {longest:g} s",
    ]
    tenants = offer.by_tenant()
    shown = [f"{tenant} {count}" for tenant, count in list(tenants.items())[:10]]
    more = f" and {len(tenants) - 10} more" if len(tenants) > 10 else ""
    lines.append(f"tenants: {', '.join(shown)}{more}")
    lines += [
        f"{tenant} is meant to have weight {weight:g}: tq tenants weight {tenant} {weight:g} --new"
        for tenant, weight in weights(offer.workload).items()
    ]
    return lines


def _load(offer: Offer, slots: int) -> str:
    if offer.span <= 0:
        return ""
    return f", {offer.seconds / (offer.span * slots):.2f} x what {slots} slots can do"


@dataclass(slots=True)
class Report:
    """A run of the command; ``unseen`` tasks ended without a result that could be read."""

    offer: Offer
    slots: int
    namespace: str = ""
    queue: str = ""
    notes: list[str] = field(default_factory=list)
    done: Submitted | None = None
    follower: Follower | None = None
    unseen: int = 0

    def at(self, namespace: str, queue: str, notes: list[str]) -> None:
        """Say where the tasks go; ``notes`` are sentences on what is missing there."""
        self.namespace, self.queue, self.notes = namespace, queue, notes

    def as_json(self) -> dict[str, Any]:
        """Return everything as one document."""
        offer = self.offer
        document: dict[str, Any] = {
            "run": offer.run,
            "workload": offer.workload,
            "seed": offer.seed,
            "total": len(offer.works),
            "span": offer.span,
            "work": round(offer.seconds, 6),
            "digest": offer.digest,
            "tenants": offer.by_tenant(),
        }
        if self.namespace:
            document |= {"namespace": self.namespace, "queue": self.queue, "notes": self.notes}
        if self.done is not None:
            done = self.done
            document |= {
                "continued": done.first,
                "submitted": done.sent - done.first,
                "complete": done.sent == len(offer.works),
                "seconds": done.seconds,
                "lag": lags(done),
            }
        if self.follower is not None:
            found = self.follower
            document |= {
                "outcomes": dict(found.outcomes),
                "unseen": self.unseen,
                "waits": {
                    "all": asdict(found.all_waits()),
                    "tenants": {name: asdict(waits) for name, waits in found.waits().items()},
                },
            }
        return document

    def as_text(self) -> str:
        """Return what is printed in the end."""
        lines: list[str] = []
        if self.done is not None:
            lines.append(self._submitted(self.done))
        if self.follower is not None:
            lines += self._followed(self.follower)
        return "\n".join(lines)

    def _submitted(self, done: Submitted) -> str:
        total, count = len(self.offer.works), done.sent - done.first
        rate = f", {count / done.seconds:.0f}/s" if done.seconds > 0 else ""
        text = f"{self.offer.run}: {count} tasks submitted in {done.seconds:.1f} s{rate}"
        if self.offer.span > 0:
            lag = lags(done)
            text += f"; lag p50 {_ms(lag['p50'])}, p99 {_ms(lag['p99'])}, max {_ms(lag['max'])}"
        if done.first:
            text += f"; the first {done.first} were there already"
        if done.sent < total:
            text += f"; {total - done.sent} are left, the same command goes on with them"
        return text

    def _followed(self, found: Follower) -> list[str]:
        ended = ", ".join(f"{count} {outcome}" for outcome, count in found.outcomes.most_common())
        lines = [f"{found.ended} of {found.total} have ended: {ended or 'none'}"]
        if self.unseen:
            lines.append(
                f"{self.unseen} have ended too, and their results are gone: the namespace keeps "
                "the newest (results_maxlen)"
            )
        if not found.ended:
            return lines
        rows = [("all", found.all_waits()), *found.waits().items()]
        head = ("wait of", "tasks", "p50 s", "p95 s", "max s")
        lines.append(table(head, [_row(name, waits) for name, waits in rows]))
        return lines


def lags(done: Submitted) -> dict[str, float]:
    """Return percentiles of how late tasks were submitted, in seconds; 0 for none."""
    ordered = sorted(done.lags) or [0.0]
    return {
        "p50": percentile(ordered, 50),
        "p99": percentile(ordered, 99),
        "max": ordered[-1],
    }


def _row(name: str, waits: Waits) -> tuple[object, ...]:
    return (name, waits.count, *(f"{value:.3f}" for value in (waits.p50, waits.p95, waits.max)))


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


class Progress:
    """One line on stderr: redrawn on a terminal, now and then anywhere else."""

    def __init__(self, offer: Offer, *, quiet: bool, stream: TextIO | None = None) -> None:
        self._offer = offer
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._quiet = quiet
        self._said = time.monotonic()
        self._ended: list[tuple[float, int]] = []

    def submitting(self, done: Submitted) -> None:
        """Show how far submitting is."""
        if self._due():
            total = len(self._offer.works)
            left = self._offer.span - self._offer.works[min(done.sent, total - 1)].at
            if self._offer.span == 0 and done.sent > done.first:
                left = done.seconds / (done.sent - done.first) * (total - done.sent)
            lag = done.lags[-1] if done.lags else 0.0
            self._say(
                f"{_bar(done.sent, total)} {done.sent}/{total} submitted, lag {_ms(lag)}, "
                f"{format_age(left)} left"
            )

    def waiting(self, found: Follower) -> None:
        """Show how many have ended; the time left follows from the pace since the wait began."""
        now = time.monotonic()
        if not self._ended:
            self._ended.append((now, found.ended))
        if self._due():
            began, before = self._ended[0]
            left = "?"
            if found.ended > before:
                pace = (found.ended - before) / (now - began)
                left = format_age((found.total - found.ended) / pace)
            bar = _bar(found.ended, found.total)
            self._say(f"{bar} {found.ended}/{found.total} ended, {left} left")

    def close(self) -> None:
        """End the line on a terminal."""
        if self._terminal and not self._quiet:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _due(self) -> bool:
        now = time.monotonic()
        if self._quiet or now - self._said < (_OFTEN if self._terminal else _SELDOM):
            return False
        self._said = now
        return True

    def _say(self, line: str) -> None:
        text = f"\r{line}\x1b[K" if self._terminal else f"{line}\n"
        self._stream.write(text)
        self._stream.flush()


def _bar(done: int, total: int) -> str:
    filled = _WIDTH * done // max(total, 1)
    return "[" + "#" * filled + "-" * (_WIDTH - filled) + "]"
