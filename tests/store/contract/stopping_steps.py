"""What the tests of stopping share: tasks in a state, and a namespace with nothing left in it."""

from __future__ import annotations

from typing import Any

from tests.store.contract.lab import Lab
from tests.store.contract.steps import admit_all, announce, dispatch_all, submit, task

__all__ = ["STATES", "assert_empty", "bring", "bury_the_dead"]

STATES = ("submitted", "delayed", "pending", "dispatched")


def bring(lab: Lab, state: str, *names: str, **options: Any) -> None:
    """Submit tasks and bring them into a state."""
    if state == "delayed":
        options["delay"] = 60_000
    submit(lab.store, *[task(name, **options) for name in names])
    if state in ("pending", "dispatched", "running"):
        admit_all(lab.store)
    if state in ("dispatched", "running"):
        dispatch_all(lab.store)
    if state == "running":
        lab.store.renew(announce("w", "q"), 600_000)
        assert len(lab.store.read("w", {"q": 500}, 0)) == len(names)


def bury_the_dead(lab: Lab) -> list[tuple[str, str]]:
    """Write all obituaries; returns the outcomes and reasons."""
    told = []
    while found := lab.store.read_obituaries("mourner", ["q", "other"]):
        told += [(each.outcome.value, each.reason) for each in found]
        lab.store.close_obituaries(found)
    return told


def assert_empty(lab: Lab) -> None:
    view = lab.view()
    view.assert_conserved()
    assert view.nonempty() == {}
