"""A whole namespace in one process: for tests, for simulation, and to read what the scripts do.

Each part of ``store/memory/`` is one side of the contract, in plain Python and in the order in
which the Lua scripts take their steps; the contract suite compares the two. Time stands still
until :attr:`MemoryStore.now` is set, blocking calls return at once, and nothing is thread-safe.
"""

from __future__ import annotations

from tq_celery.store.memory.account import Account
from tq_celery.store.memory.operate import Operate
from tq_celery.store.memory.regroup import Regroup
from tq_celery.store.memory.stop import Stop
from tq_celery.store.memory.submit import Submit
from tq_celery.store.memory.work import Work

__all__ = ["MemoryStore"]


class MemoryStore(Submit, Regroup, Work, Operate, Stop, Account):
    """Implements :class:`~tq_celery.store.contract.Store` and the operator's actions.

    ``ns`` holds everything, under the names of the Redis keys.
    """
