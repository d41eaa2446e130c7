"""The part of the random life in which tasks are stopped: revoked, removed, purged, drained."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.store.contract.lab import Lab

__all__ = ["QUEUES", "StoppingRules", "name_of", "numbers", "queues", "some_queues", "tenants"]

QUEUES = ("a", "b", "c")
TENANTS = (b"x", b"y", b":z{}\x00")

queues = st.sampled_from(QUEUES)
some_queues = st.lists(queues, min_size=1, max_size=3, unique=True)
tenants = st.sampled_from(TENANTS)
numbers = st.integers(0, 1000)


def name_of(number: int) -> str:
    """Return a task's name; all are as long, so that members sort by them in the order they came.

    On a server they sort by the ms in which they came first.
    """
    return f"n{number:05d}"


class StoppingRules(RuleBasedStateMachine):
    """Rules for two stores that must answer alike; the machine compares them after each."""

    names = 0

    def both(self, act: Any) -> Any:
        """Do the same to both stores; their answers must be equal."""
        raise NotImplementedError

    @rule(chosen=st.lists(numbers, min_size=1, max_size=4))
    def revoke(self, chosen: list[int]) -> None:
        """Revoke tasks that wait, run, have ended or were never there."""
        ids = [name_of(number % (self.names + 2)) for number in chosen]
        self.both(lambda lab: lab.store.revoke(ids))

    @rule(step=st.integers(2, 4), where=st.sampled_from(["delayed", "ingress", "pending", "exec"]))
    def remove(self, step: int, where: str) -> None:
        """Remove some members of one place in one call, and the same ones again."""
        keys = self.both(lambda lab: _keys(lab, where))[::step]

        def act(lab: Lab) -> list[bytes]:
            hits = [found for found in _waiting(lab) if found.key in keys]
            items = [found.item for found in hits]
            done = lab.store.remove(items)
            assert not any(lab.store.remove(items)), "a repeat finds nothing"
            return sorted(found.key for found, gone in zip(hits, done, strict=True) if gone)

        self.both(act)

    @rule(asked=st.none() | some_queues, tenant=st.none() | tenants)
    def purge(self, asked: list[str] | None, tenant: bytes | None) -> None:
        def act(lab: Lab) -> int:
            purged = lab.store.purge(asked, tenant=tenant)
            left = [found for batch in lab.store.waiting(asked, tenant=tenant) for found in batch]
            assert {found.item.where for found in left} <= {"exec"}, "only what was read is left"
            return int(purged)

        self.both(act)

    @rule(step=st.integers(1, 3))
    def drain(self, step: int) -> None:
        """Take some out for the broker, and forget some of those as published."""
        keys = self.both(lambda lab: _keys(lab, "delayed", "ingress", "pending"))[::step]

        def act(lab: Lab) -> tuple[int, list[Any]]:
            items = [found.item for found in _waiting(lab) if found.key in keys]
            moved = sum(lab.store.drain(items))
            found = sorted((d.key, *d[1:3], *d[4:]) for d in lab.store.draining(500))
            lab.store.close_drained([each[0] for each in found[::2]])
            return moved, found

        self.both(act)


def _waiting(lab: Lab) -> list[Any]:
    return [found for batch in lab.store.waiting() for found in batch]


def _keys(lab: Lab, *places: str) -> list[bytes]:
    return sorted(found.key for found in _waiting(lab) if found.item.where in places)
