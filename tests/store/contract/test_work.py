"""Reading, settling, giving back, burying, leases and recovery: each token decides once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.store.contract.lab import Lab
from tests.store.contract.steps import (
    admit_all,
    announce,
    complete,
    digest,
    dispatch_all,
    promote_all,
    submit,
    task,
)
from tests.store.contract.view import View, differences, suppressed
from tq_celery.states import Outcome
from tq_celery.store.contract import Delivery, Return, Token

LEASE = 600_000


def deliver(lab: Lab, *names: str, tenant: str = "t", worker: str = "w") -> list[Delivery]:
    """Take tasks all the way to a worker."""
    submit(lab.store, *[task(name, tenant) for name in names])
    admit_all(lab.store)
    dispatch_all(lab.store)
    lab.store.renew(announce(worker, "q"), LEASE)
    deliveries = lab.store.read(worker, {"q": 1_000}, 0)
    return list(deliveries)


def stale(token: Token) -> list[Token]:
    """Return tokens that are not the current one."""
    return [
        token._replace(epoch=token.epoch + 1),
        token._replace(entry=b"1-1"),
        token._replace(queue="other"),
    ]


# -- reading -----------------------------------------------------------------------------------


def test_a_delivery_is_complete(lab: Lab) -> None:
    (found,) = deliver(lab, "n")
    assert (found.key, found.attempts, found.payload) == (b"0.0.0.n", 0, b"payload of n")
    assert found.digest == digest("n")
    assert found.token == lab.tokens("q")[0]
    assert lab.store.read("w", {"q": 10}, 0) == [], "an entry goes to one worker"


def test_each_queue_has_its_own_room(lab: Lab) -> None:
    """COUNT is per stream on the server; what a worker asked for is per queue."""
    for queue in "abc":
        submit(lab.store, *[task(f"{queue}{i}", "t", queue) for i in range(5)])
    admit_all(lab.store)
    for queue in "abc":
        dispatch_all(lab.store, queue)
    found = lab.store.read("w", {"a": 1, "b": 3, "c": 0}, 0)
    assert [d.token.queue for d in found] == ["a", "b", "b", "b"]


def test_a_delivery_without_payload_says_so(lab: Lab) -> None:
    submit(lab.store, task("n"))
    admit_all(lab.store)
    dispatch_all(lab.store)
    lab.forget_payloads()
    (found,) = lab.store.read("w", {"q": 1}, 0)
    assert (found.payload, found.digest) == (None, b"")


# -- complete ----------------------------------------------------------------------------------


def test_settling_leaves_one_result_and_nothing_else(lab: Lab) -> None:
    (found,) = deliver(lab, "n")
    assert lab.store.complete("w", [complete(found.token)]) == [True]
    view = lab.view()
    assert view.results == [(b"0.0.0.n", "q", b"t", "completed", 0, "w", 1)]
    assert view.done == {b"0.0.0.n"}
    assert view.counters == {"accepted:q": 1, "completed:q": 1}
    assert view.nonempty() == {}


@pytest.mark.parametrize("outcome", [o for o in Outcome if o is not Outcome.DEAD])
def test_every_outcome_is_counted_by_its_word(lab: Lab, outcome: Outcome) -> None:
    (found,) = deliver(lab, "n")
    lab.store.complete("w", [complete(found.token, outcome)])
    assert lab.view().counters[f"{outcome.value}:q"] == 1
    lab.view().assert_conserved()


def test_a_token_settles_once(lab: Lab) -> None:
    """In two calls, and twice in one call (redis/redis-py #3554)."""
    a, b = deliver(lab, "a", "b")
    assert lab.store.complete("w", [complete(a.token)] * 2) == [True, False]
    before = lab.view()
    assert lab.store.complete("w", [complete(a.token)]) == [False]
    assert suppressed(before, lab.view()) == 1
    assert lab.store.complete("w", [complete(a.token), complete(b.token)]) == [False, True]
    lab.view().assert_conserved()


def test_stale_tokens_settle_nothing(lab: Lab) -> None:
    (found,) = deliver(lab, "n")
    before = lab.view()
    for token in stale(found.token):
        assert lab.store.complete("w", [complete(token)]) == [False]
        assert lab.store.give_back([Return(token)], 5) == [False]
        assert lab.store.bury("w", token, "reason") is False
    assert suppressed(before, lab.view()) == 6


def test_the_old_owner_cannot_settle_what_was_reclaimed(lab: Lab) -> None:
    """Nor take the slot of the new delivery with it (taskiq-python/taskiq-redis #101)."""
    (found,) = deliver(lab, "n")
    lab.lapse("w")
    assert lab.store.reclaim("w", 5, True, 10) == 1
    dispatch_all(lab.store)
    before = lab.view()
    assert lab.store.complete("w", [complete(found.token)]) == [False]
    assert suppressed(before, lab.view()) == 1
    (again,) = lab.store.read("w2", {"q": 1}, 0)
    assert again.attempts == 1
    assert lab.store.complete("w2", [complete(again.token)]) == [True]


# -- give_back ---------------------------------------------------------------------------------


def test_a_delivery_returns_to_its_place(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(policy="fifo")
    first = deliver(lab, "a", "b", "c")[0]
    submit(lab.store, task("d"))
    admit_all(lab.store)
    assert lab.store.give_back([Return(first.token)], 5) == [True]
    (waiting,) = lab.view().pending.values()
    assert [(key, attempts, paid) for key, _, attempts, paid in waiting] == [
        (b"0.0.0.a", 0, 1),
        (b"0.0.0.d", 0, 0),
    ]
    lab.view().assert_conserved()
    before = lab.view()
    assert lab.store.give_back([Return(first.token)], 5) == [False]
    assert differences(before, lab.view()) == {}


def test_returned_work_costs_nothing_again(lab: Lab) -> None:
    (found,) = deliver(lab, "n")
    assert lab.view().virtual == {"q": 1.0}
    lab.store.give_back([Return(found.token)], 5)
    assert lab.view().heads == {"q": [(b"t", 1.0)]}
    dispatch_all(lab.store)
    assert lab.view().virtual == {"q": 1.0}


def test_a_delay_keeps_it_out_of_reach(lab: Lab) -> None:
    (found,) = deliver(lab, "n")
    lab.store.give_back([Return(found.token, delay=60_000)], 5)
    assert lab.view().delayed == [("q", b"t", b"0.0.0.n", 0, 1)]
    assert dispatch_all(lab.store) == 0
    lab.ripen()
    promote_all(lab.store)
    assert dispatch_all(lab.store) == 1
    lab.view().assert_conserved()


def test_a_delayed_return_wakes_the_leader(lab: Lab) -> None:
    """Else it is promoted after the leader's longest rest, and a rate of 50/s becomes 2/s.

    Seen to fail without the wake.
    """
    (found,) = deliver(lab, "n")
    cursor = lab.store.read_ingress(b"", 9, 0).cursor
    lab.store.give_back([Return(found.token, delay=20)], 5)
    assert lab.store.read_ingress(cursor, 9, 0).wakes == {"returned", "delayed"}


def test_only_counted_returns_spend_the_budget(lab: Lab) -> None:
    """A deploy does not use up attempts; losses do, and the last one buries (celery #9082)."""
    deliver(lab, "n")
    for _ in range(10):
        assert lab.store.give_back([Return(lab.tokens("q")[0])], 3) == [True]
        dispatch_all(lab.store)
    for attempts in (1, 2):
        lab.store.give_back([Return(lab.tokens("q")[0], counted=True)], 3)
        dispatch_all(lab.store)
        assert lab.view().exec["q"] == [(b"0.0.0.n", attempts, 1)]
    lab.store.give_back([Return(lab.tokens("q")[0], counted=True)], 3)
    view = lab.view()
    assert view.exec == {}
    assert view.dead == [(b"0.0.0.n", "delivery budget spent")]
    assert view.results == [(b"0.0.0.n", "q", b"t", "dead", 3, "", 1)]
    view.assert_conserved()


# -- bury and obituaries -----------------------------------------------------------------------


def test_a_buried_task_leaves_a_letter_and_an_obituary(lab: Lab) -> None:
    (found,) = deliver(lab, "n")
    assert lab.store.bury("w", found.token, "poison") is True
    view = lab.view()
    assert view.dead == [(b"0.0.0.n", "poison")]
    assert view.obituary == {"q": [(b"0.0.0.n", "poison")]}
    assert view.payload == {b"0.0.0.n"}, "kept until the obituary is written"
    assert view.counters == {"accepted:q": 1, "dead:q": 1}
    assert view.nonempty("live", "running", "exec") == {}
    assert lab.store.bury("w", found.token, "poison") is False
    assert suppressed(view, lab.view()) == 1


def test_an_obituary_is_written_by_one_worker(lab: Lab) -> None:
    (found,) = deliver(lab, "n")
    lab.store.bury("w", found.token, "poison")
    (obituary,) = lab.store.read_obituaries("w", ["q", "other"])
    assert lab.store.read_obituaries("w2", ["q"]) == []
    assert (obituary.key, obituary.outcome, obituary.reason) == (b"0.0.0.n", "dead", "poison")
    assert obituary.payload == b"payload of n"
    lab.store.close_obituaries([obituary])
    lab.store.close_obituaries([obituary])
    view = lab.view()
    assert view.obituary == {}
    assert view.payload == set()


def test_an_obituary_outlives_the_worker_that_read_it(lab: Lab) -> None:
    (found,) = deliver(lab, "n")
    lab.store.bury("w", found.token, "poison")
    assert len(lab.store.read_obituaries("w", ["q"])) == 1
    lab.lapse("w")
    lab.store.reclaim("w", 5, True, 10)
    (again,) = lab.store.read_obituaries("w2", ["q"])
    assert again.payload == b"payload of n"


# -- leases ------------------------------------------------------------------------------------


def test_a_live_worker_keeps_everything(lab: Lab) -> None:
    deliver(lab, "n")
    before = lab.view()
    assert lab.store.reclaim("w", 5, True, 10) == -1
    assert differences(before, lab.view()) == {}


def test_a_lost_worker_s_deliveries_return_counted(lab: Lab) -> None:
    deliver(lab, "a", "b", "c")
    lab.lapse("w")
    assert lab.store.reclaim("w", 5, True, 2) == 2, "in bounded batches"
    assert [w.worker for w in lab.store.workers()[0]] == ["w"], "known while it holds something"
    assert lab.store.reclaim("w", 5, True, 2) == 1
    assert lab.store.reclaim("w", 5, True, 2) == 0
    assert lab.store.workers()[0] == []
    (waiting,) = lab.view().pending.values()
    assert [(attempts, paid) for _, _, attempts, paid in waiting] == [(1, 1)] * 3
    lab.view().assert_conserved()


def test_an_outage_is_not_counted(lab: Lab) -> None:
    deliver(lab, "n")
    lab.lapse("w")
    lab.store.reclaim("w", 1, False, 10)
    (waiting,) = lab.view().pending.values()
    assert [(attempts, paid) for _, _, attempts, paid in waiting] == [(0, 1)]


def test_the_loss_that_spends_the_budget_buries(lab: Lab) -> None:
    deliver(lab, "n")
    lab.lapse("w")
    lab.store.reclaim("w", 1, True, 10)
    view = lab.view()
    assert view.dead == [(b"0.0.0.n", "worker lost")]
    assert view.obituary == {"q": [(b"0.0.0.n", "worker lost")]}
    assert view.nonempty("pending", "exec") == {}


def test_a_worker_that_stops_returns_its_deliveries_uncounted(lab: Lab) -> None:
    deliver(lab, "a", "b")
    lab.store.withdraw("w")
    (waiting,) = lab.view().pending.values()
    assert [(attempts, paid) for _, _, attempts, paid in waiting] == [(0, 1)] * 2
    assert lab.store.workers()[0] == []
    lab.store.withdraw("w")
    lab.view().assert_conserved()


def test_a_worker_without_a_lease_is_reclaimed_as_an_orphan(lab: Lab) -> None:
    """Read by a consumer whose announcement never arrived."""
    submit(lab.store, task("n"))
    admit_all(lab.store)
    dispatch_all(lab.store)
    lab.store.read("ghost", {"q": 1}, 0)
    assert lab.store.reclaim_orphans("q", -1_000, 10) == 1
    lab.view().assert_conserved()
    assert dispatch_all(lab.store) == 1


def test_unread_entries_return_when_the_last_worker_is_gone(lab: Lab) -> None:
    submit(lab.store, *[task(f"n{i}") for i in range(5)])
    admit_all(lab.store)
    dispatch_all(lab.store)
    assert lab.store.reclaim_orphans("q", 60_000, 10) == 0, "not before their age"
    lab.store.renew(announce("w", "q"), LEASE)
    assert lab.store.reclaim_orphans("q", -1_000, 10) == 0, "a worker will read them"
    lab.store.withdraw("w")
    assert lab.store.reclaim_orphans("q", -1_000, 3) == 3
    assert lab.store.reclaim_orphans("q", -1_000, 3) == 2
    view = lab.view()
    assert view.exec == {}
    view.assert_conserved()


# -- dead letters ------------------------------------------------------------------------------


def test_a_requeued_letter_is_the_next_generation(lab: Lab) -> None:
    (found,) = deliver(lab, "n")
    lab.store.bury("w", found.token, "poison")
    lab.store.close_obituaries(lab.store.read_obituaries("w", ["q"]))
    (entry,) = lab.dead_entries()
    assert lab.store.requeue(entry) == "requeued"
    view = lab.view()
    assert view.dead == []
    assert view.ingress == [("q", b"t", b"0.0.1.n")]
    assert view.counters == {"accepted:q": 2, "dead:q": 1, "submitted:q": 1}
    view.assert_conserved()
    assert lab.store.requeue(entry) == "missing"
    admit_all(lab.store)
    dispatch_all(lab.store)
    (again,) = lab.store.read("w", {"q": 1}, 0)
    assert (again.payload, again.attempts) == (b"payload of n", 0)
    assert lab.store.complete("w", [complete(again.token)]) == [True]
    assert lab.view().payload == set()


def test_letters_can_be_purged(lab: Lab) -> None:
    (found,) = deliver(lab, "n")
    lab.store.bury("w", found.token, "poison")
    (entry,) = lab.dead_entries()
    assert lab.store.purge_dead([entry, b"1-1"]) == 1
    assert lab.store.requeue(entry) == "missing"
    assert lab.store.purge_dead([]) == 0


def test_an_empty_namespace_takes_the_settings_and_keeps_them(lab: Lab) -> None:
    from tq_celery.settings import Settings

    first = lab.store.config()
    assert first["policy"] == "wfq"
    assert first["generation"] == "1"
    assert lab.store.seed(Settings(policy="fifo", order_within="deadline")) == first
    assert lab.store.config() == first


def test_nothing_is_left_when_all_is_done(lab: Lab) -> None:
    for found in deliver(lab, *[f"n{i}" for i in range(50)]):
        lab.store.complete("w", [complete(found.token)])
    view = lab.view()
    assert (
        differences(
            view,
            View(
                counters={"accepted:q": 50, "completed:q": 50},
                done=view.done,
                results=view.results,
                ends=view.ends,
                delivered=view.delivered,
                service={b"t": (50_000, 50, 0)},
                flows=view.flows,
                virtual=view.virtual,
                fence=1,
            ),
        )
        == {}
    )
