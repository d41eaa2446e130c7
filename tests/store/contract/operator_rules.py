"""The part of the random life in which people set things, and the leader keeps its accounts."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.store.contract.lab import Lab
from tests.store.contract.stopping_rules import queues, tenants
from tests.store.contract.view import View

__all__ = ["OperatorRules"]

changes = st.sampled_from(["shown", "hidden", "forgotten"])


class OperatorRules(RuleBasedStateMachine):
    """Rules for two stores that must answer alike; the machine compares them after each."""

    def __init__(self) -> None:
        super().__init__()
        #: Tenants whose record may have gone.
        self.forgotten: set[bytes] = set()

    @property
    def epoch(self) -> int:
        """The leader's."""
        raise NotImplementedError

    def both(self, act: Any) -> Any:
        """Do the same to both stores; their answers must be equal."""
        raise NotImplementedError

    def each(self, act: Any) -> tuple[Any, Any]:
        """Do the same to both stores; the answers may differ."""
        raise NotImplementedError

    @rule(tenant=tenants, weight=st.sampled_from([0.01, 1.0, 3.0, 100.0]))
    def weigh(self, tenant: bytes, weight: float) -> None:
        self.each(lambda lab: lab.store.set_weight(tenant, weight))

    @rule(tenant=tenants, cap=st.sampled_from([None, 1, 2]))
    def cap(self, tenant: bytes, cap: int | None) -> None:
        self.each(lambda lab: lab.store.set_cap(tenant, cap))

    @rule(tenant=tenants, pause=st.booleans())
    def pause_tenant(self, tenant: bytes, pause: bool) -> None:
        self.both(
            lambda lab: (lab.store.pause_tenant if pause else lab.store.resume_tenant)(tenant)
        )

    @rule(queue=queues, pause=st.booleans())
    def pause_queue(self, queue: str, pause: bool) -> None:
        self.both(lambda lab: (lab.store.pause_queue if pause else lab.store.resume_queue)(queue))

    @rule(changes=st.dictionaries(tenants, changes, max_size=2))
    def account(self, changes: dict[bytes, Any]) -> None:
        """Records are shown, hidden and forgotten; one whose tenant has tasks is kept."""
        self.each(lambda lab: lab.store.account(self.epoch, 4, 2, 1_000, changes))
        self.forgotten |= {tenant for tenant, word in changes.items() if word == "forgotten"}
        self.both(_accounts)

    def assert_served(self, view: View) -> None:
        """Compare what tenants were served with what the result records add up to."""
        kept = {tenant: each[:2] for tenant, each in view.service.items() if any(each[:2])}
        found = view.scan_served()
        for tenant in self.forgotten:
            kept.pop(tenant, None)
            found.pop(tenant, None)
        assert kept == found


def _accounts(lab: Lab) -> Any:
    found = lab.store.accounts()
    return found.slots, found.busy, sorted(found.live), sorted(found.configured)
