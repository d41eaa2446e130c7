"""An epoch is given once, also by a server that has lost what it knew of epochs.

Each account of an earlier epoch stands alone here: the others are gone. Without the look at it in
``includes/epochs.lua``, and in the memory store, each of these tests was seen to fail: the epoch
granted was 1.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.store.contract.lab import Lab
from tests.store.contract.steps import admit_all, announce, complete, submit, task


def dispatched(lab: Lab, epoch: int, *names: str) -> None:
    """Let tasks be dispatched under an epoch, and both counters of epochs be lost."""
    submit(lab.store, *[task(name) for name in names])
    admit_all(lab.store, epoch)
    assert lab.store.dispatch(epoch, ["q"], 100, 100).count == len(names)
    lab.forget_epochs()


def granted(lab: Lab, floor: int = 0) -> int:
    return int(lab.store.elect("next", 60_000, floor).epoch)


def test_above_what_the_candidate_knows(lab: Lab) -> None:
    assert granted(lab, floor=41) == 42


def test_above_what_waits_for_its_worker(lab: Lab) -> None:
    dispatched(lab, 41, "one", "two")
    assert granted(lab) == 42


def test_above_what_was_settled(lab: Lab) -> None:
    """A task of an older epoch may be the last to end."""
    dispatched(lab, 40, "old")
    (old,) = lab.tokens("q")
    dispatched(lab, 41, "new")
    assert all(lab.store.complete("w", [complete(lab.tokens("q")[1]), complete(old)]))
    assert granted(lab) == 42


def test_above_what_a_worker_was_handed(lab: Lab) -> None:
    lab.store.renew(replace(announce("w", "q"), epoch=41, epoch_since=5), 30_000)
    assert granted(lab) == 42


def test_a_worker_that_says_nothing_of_epochs_is_no_obstacle(lab: Lab) -> None:
    lab.store.renew(announce("w", "q"), 30_000)
    assert granted(lab) == 1


@pytest.mark.parametrize("epoch", [-7, 2**60])
def test_an_epoch_that_no_election_gave_is_not_believed(lab: Lab, epoch: int) -> None:
    lab.store.renew(replace(announce("w", "q"), epoch=epoch), 30_000)
    assert granted(lab, floor=epoch) == 1
    assert lab.store.elect("other", 60_000, epoch).in_force == 1


def test_what_workers_announce_is_read_back(lab: Lab) -> None:
    told = replace(announce("w", "q"), epoch=41, epoch_since=1_700_000_000_123)
    lab.store.renew(told, 30_000)
    (found,), _ = lab.store.workers()
    assert replace(found, expires=0) == told


def test_a_candidate_learns_which_epoch_is_in_force(lab: Lab) -> None:
    first = lab.store.elect("a", 60_000)
    refused = lab.store.elect("b", 60_000)
    assert (first.in_force, refused.in_force) == (1, 1)
    assert 0 <= refused.at - first.at < 30_000
    assert lab.store.extend("a", 1, 60_000), "a candidate that knows no more disturbs nobody"


def test_a_candidate_that_knows_a_newer_epoch_has_the_leader_elected_anew(lab: Lab) -> None:
    """Epoch 1 was in use before: whoever wrote under it must not pass for this leader.

    Seen to fail without the write of ``epoch`` to a refused candidate: the leader went on.
    """
    assert lab.store.elect("a", 60_000).epoch == 1
    assert lab.store.elect("b", 60_000, 7)[:1] == (0,)
    assert lab.store.elect("b", 60_000).in_force == 7
    assert not lab.store.extend("a", 1, 60_000)
    assert lab.store.elect("a", 60_000).epoch == 8
    assert lab.store.extend("a", 8, 60_000)
