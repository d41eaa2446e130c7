"""What a trial has to reach: pure judgement over what was found, in words where it was not."""

from __future__ import annotations

from bench.experiments.workerloss.burial import BUDGET, PARTS, Burial
from bench.experiments.workerloss.trial import Trial

__all__ = ["LEASES", "STAMP_MS", "of_burial", "of_trial"]

#: Leases within which everything that was lost runs again.
LEASES = 2
#: Milliseconds by which a stamp may contradict the server's clock; the host's is an hour off.
STAMP_MS = 1_000.0


def of_trial(found: Trial, lease: float, slack: float = 0.0) -> list[str]:
    """Return what is wrong; ``lease`` and what a busy machine may add to a time in seconds."""
    balance = found.account
    wrong = [
        f"{len(several)} {word}, the first {several[0]}"
        for word, several in (
            ("lost", balance.lost),
            ("settled twice", balance.settled_twice),
            ("with another outcome", balance.wrong_outcome),
            ("not run again", balance.stranded),
            ("run again for no reason", balance.unexplained),
        )
        if several
    ]
    if balance.recovery is not None and balance.recovery > LEASES * lease + slack:
        wrong.append(f"run again after {balance.recovery:.1f} s, not within {LEASES * lease:g} s")
    if found.fault == "clock":
        if found.pause > lease + slack:
            wrong.append(f"nothing started for {found.pause:.1f} s")
    elif not balance.taken:
        wrong.append("the fault took nothing: there was nothing to recover")
    if found.used != found.slots:
        wrong.append(f"{found.used} tasks in {found.slots} slots")
    if found.stamps_ms > STAMP_MS:
        wrong.append(f"a stamp is wrong by {found.stamps_ms:.0f} ms")
    if found.orphans:
        wrong.append(f"{found.orphans} processes outlived their worker")
    if found.stale:
        wrong.append(f"{found.stale} dispatches under an epoch that was over")
    return [*wrong, *_books(found)]


def of_burial(found: Burial) -> list[str]:
    """Return what is wrong with the end of a task that kills its worker."""
    wrong = []
    if (found.starts, found.letters, found.attempts) != (BUDGET, 1, BUDGET):
        wrong.append(
            f"{found.starts} starts, {found.letters} dead letters, {found.attempts} attempts"
        )
    if found.result[0] != "FAILURE":
        wrong.append(f"its result is {found.result[0] or 'missing'}")
    if found.chord != ("FAILURE", "ChordError"):
        wrong.append(f"the chord ended as {' '.join(found.chord)}")
    if found.summed:
        wrong.append("the chord's body ran")
    if found.parts != PARTS:
        wrong.append(f"{found.parts} of the {PARTS} other parts completed")
    if found.settled_twice:
        wrong.append(f"{found.settled_twice} settled twice")
    return [*wrong, *_books(found)]


def _books(found: Trial | Burial) -> list[str]:
    wrong = [f"left over: {dict(found.left)}"] if found.left else []
    if found.violations:
        wrong.append(f"{len(found.violations)} promises broken, the first {found.violations[0]}")
    return wrong
