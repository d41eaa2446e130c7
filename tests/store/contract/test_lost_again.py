"""What comes back from a worker that was lost with tasks that another had been lost with before."""

from __future__ import annotations

from tests.store.contract.lab import Lab
from tests.store.contract.steps import dispatch_all, promote_all
from tests.store.contract.test_work import deliver


def lose(lab: Lab, counted: bool, spread: int) -> int:
    """Let the worker lapse, and take back what it holds."""
    lab.lapse("w")
    return lab.store.reclaim("w", 5, counted, 10, spread)


def test_those_lost_again_return_one_at_a_time(lab: Lab) -> None:
    """One of them may end every worker that has it: the others are not beside it once more.

    What is lost for the first time, and what an outage takes, returns at once. Seen to fail with
    no delay, and without the wake.
    """
    deliver(lab, "a", "b", "c")
    for counted in (True, False):
        assert lose(lab, counted, 2_400) == 3
        assert lab.view().delayed == []
        dispatch_all(lab.store)
        deliver(lab)
    cursor = lab.store.read_ingress(b"", 9, 0).cursor
    assert lose(lab, True, 2_400) == 3
    view = lab.view()
    ((name, _, attempts, paid),) = next(iter(view.pending.values()))
    assert (name, attempts, paid) == (b"0.0.0.a", 2, 1)
    assert view.delayed == [("q", b"t", b"0.0.0.b", 2, 1), ("q", b"t", b"0.0.0.c", 2, 1)]
    rest = lab.store.due(10)[1]
    assert rest is not None
    assert 0 < rest <= 800, "a third of the spread for each"
    assert lab.store.read_ingress(cursor, 9, 0).wakes == {"workers", "delayed"}
    view.assert_conserved()
    lab.ripen()
    promote_all(lab.store)
    assert dispatch_all(lab.store) == 3
