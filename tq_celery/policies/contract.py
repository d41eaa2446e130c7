"""What a policy decides, and the only thing it may look at.

A policy is pure: values in, a rank out. It has no clock, no randomness, no I/O and no log, so the
same object runs in the scheduler, in tests and in simulation. The *order within* a tenant is
:meth:`Policy.rank`; the *order between* tenants is :attr:`Policy.between`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol

__all__ = ["MAX_RANK", "Between", "Policy", "Task"]

#: Greatest rank: the greatest integer up to which a double is exact.
MAX_RANK = 2**53 - 1

#: How heads of tenants compare: by their first task's own rank, by fair tags, or not at all.
Between = Literal["rank", "fair", "none"]


class Task(NamedTuple):
    """The ranking data of one task: ``ms`` is its arrival and ``deadline`` absolute, both ms."""

    ms: int
    cost: float
    priority: int
    deadline: int


class Policy(Protocol):
    """One way to order waiting tasks."""

    @property
    def name(self) -> str:
        """The word that selects this policy in settings and on the command line."""

    @property
    def between(self) -> Between:
        """``rank``: lowest head rank first; ``fair``: self-clocked fair tags per tenant."""

    def rank(self, task: Task) -> float:
        """Return the task's rank in its tenant: lower runs first; at most 2**53 - 1.

        Equal ranks run in order of arrival.
        """
