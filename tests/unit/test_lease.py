"""When a worker says that it lives."""

from __future__ import annotations

from time import monotonic
from typing import Any

import pytest

from tq_celery.store.contract import WorkerAnnouncement
from tq_celery.worker.lease import LONGEST_REST, Lease


class Store:
    """Renews whatever it is asked to."""

    class Reply:
        status, now = "renewed", 0

    def renew(self, *_: object) -> Any:
        return self.Reply


@pytest.mark.parametrize(("seconds", "rest"), [(1.5, 0.5), (9.0, 3.0), (30.0, 3.0), (3600.0, 3.0)])
def test_a_renewal_comes_three_times_a_lease_and_every_three_seconds(seconds, rest) -> None:
    """Seen to fail without the greatest rest: ten seconds passed with the default lease until an
    emptied server knew the slots of an idle worker again.
    """
    lease = Lease(seconds)
    before = monotonic()
    store: Any = Store()
    lease.renew(store, WorkerAnnouncement("w", ("q",), 1, 0))
    after = monotonic()
    assert rest <= LONGEST_REST
    assert rest - 0.001 <= lease.due(before) <= rest + (after - before) + 0.001
    assert before + seconds <= lease.until <= after + seconds
