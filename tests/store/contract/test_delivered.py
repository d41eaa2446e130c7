"""What result records tell of the last delivery, and how much room a group was ever given."""

from __future__ import annotations

from tests.store.contract.lab import Lab
from tests.store.contract.steps import (
    admit_all,
    announce,
    complete,
    dispatch_all,
    promote_all,
    submit,
    task,
)
from tests.store.contract.stopping_steps import bring
from tq_celery.store.contract import Delivery, Return

LEASE = 600_000


def deliver(lab: Lab) -> Delivery:
    """Let the one task that waits be read by a worker."""
    admit_all(lab.store)
    dispatch_all(lab.store)
    lab.store.renew(announce("w", "q"), LEASE)
    (found,) = lab.store.read("w", {"q": 10}, 0)
    return found


def told(lab: Lab) -> list[tuple[bytes, bool, bool]]:
    """Return key, whether an exec entry is named, whether it is a redelivery, of each record."""
    for key, since, _ in lab.view().delivered:
        assert since in (None, 0), f"{key!r} names another entry than it was dispatched with"
    return [(key, since is not None, again) for key, since, again in lab.view().delivered]


def test_a_first_delivery(lab: Lab) -> None:
    submit(lab.store, task("a"))
    lab.store.complete("w", [complete(deliver(lab).token)])
    assert told(lab) == [(b"0.0.0.a", True, False)]


def test_a_delivery_after_one_that_was_given_back(lab: Lab) -> None:
    submit(lab.store, task("a"))
    lab.store.give_back([Return(deliver(lab).token)], 3)
    lab.store.complete("w", [complete(deliver(lab).token)])
    assert told(lab) == [(b"0.0.0.a", True, True)]


def test_a_delivery_after_one_that_was_lost(lab: Lab) -> None:
    submit(lab.store, task("a"))
    deliver(lab)
    lab.lapse("w")
    lab.store.reclaim("w", 9, True, 100)
    lab.store.bury("w", deliver(lab).token, "no reason")
    assert told(lab) == [(b"0.0.0.a", True, True)]


def test_the_first_delivery_may_be_the_one_too_many(lab: Lab) -> None:
    """Seen to fail: a task that was buried when it was first lost counted as delivered twice."""
    submit(lab.store, task("a"))
    deliver(lab)
    lab.lapse("w")
    lab.store.reclaim("w", 1, True, 100)
    assert told(lab) == [(b"0.0.0.a", True, False)]


def test_a_delayed_return_is_a_redelivery_when_it_comes(lab: Lab) -> None:
    submit(lab.store, task("a"))
    lab.store.give_back([Return(deliver(lab).token, delay=60_000)], 3)
    lab.ripen()
    promote_all(lab.store)
    lab.store.complete("w", [complete(deliver(lab).token)])
    assert told(lab) == [(b"0.0.0.a", True, True)]


def test_what_ends_outside_a_worker_names_no_entry(lab: Lab) -> None:
    """A delivery that nobody had read names the one it was."""
    bring(lab, "pending", "a")
    bring(lab, "submitted", "b")
    bring(lab, "delayed", "c")
    assert lab.store.purge() == 3
    assert sorted(told(lab)) == [(b"0.0.0.%b" % name, False, False) for name in (b"a", b"b", b"c")]
    bring(lab, "dispatched", "d")
    assert lab.store.purge() == 1
    assert told(lab)[-1] == (b"0.0.0.d", True, False)


def test_what_is_drained_names_an_entry_if_it_had_one(lab: Lab) -> None:
    bring(lab, "dispatched", "a")
    bring(lab, "pending", "b")
    for batch in lab.store.waiting():
        lab.store.drain([found.item for found in batch])
    assert sorted(told(lab)) == [(b"0.0.0.a", True, False), (b"0.0.0.b", False, False)]


# -- the greatest capacity -----------------------------------------------------------------------


def capacities(lab: Lab) -> dict[str, int]:
    return {name: n for name, n in lab.view().flows.items() if name.startswith("capacity:")}


def test_the_greatest_capacity_is_kept(lab: Lab) -> None:
    bring(lab, "pending", *"abcdef")
    for capacity in (2, 5, 3):
        lab.store.dispatch(1, ["q"], capacity, 1)
    assert capacities(lab) == {"capacity:q": 5}


def test_capacity_counts_where_something_is_dispatched(lab: Lab) -> None:
    lab.store.dispatch(1, ["q"], 9, 1)
    bring(lab, "pending", "a")
    lab.store.dispatch(1, ["q"], 0, 1)
    assert capacities(lab) == {}


def test_queues_that_share_workers_share_a_capacity(lab: Lab) -> None:
    """What others of the group have in flight counts, for one of them may be asked alone."""
    lab.store.regroup(1, {"q": "q", "r": "q"})
    submit(lab.store, *(task(f"{queue}{n}", queue=queue) for queue in "qr" for n in range(5)))
    admit_all(lab.store)
    lab.store.dispatch(1, ["q", "r"], 4, 4)
    assert capacities(lab) == {"capacity:q": 4}
    before = lab.view().counters
    lab.store.dispatch(1, ["r"], 3, 4)
    assert capacities(lab) == {"capacity:q": 3 + before["dispatched:q"]}
