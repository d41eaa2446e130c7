"""A task that recovery buries still ends its caller, its chord and its errbacks, once."""

from __future__ import annotations

import time

import pytest
from celery import chord
from celery.exceptions import ChordError

from tests.waiting import wait_until
from tq_celery.worker.obituaries import DeadTaskError


@pytest.mark.slow
def test_a_killer_ends_its_chord_and_its_errbacks_once(worker_lab):
    """The task takes its whole worker with it until the budget is spent (celery/celery #9082).

    The ending is written by a worker that has no free slot while the others are dead; afterwards
    each errback, of the part and of the body, of the new kind and of the old, has run once.
    """
    lab = worker_lab(lease=1.0, delivery_budget=2)
    full = lab.worker("threads", "-Q", "celery,stock", concurrency=1)
    lab.send("stock_hold", queue="stock")
    wait_until(lambda: [a["slots"] for a in lab.announced().values()] == [0], "no slot is free")
    first = lab.worker("threads", concurrency=1)
    note, die, by_id = (lab.app.tasks[name] for name in ("note", "die", "by_id"))
    part = die.si().on_error(note.si(mark="part")).on_error(by_id.s())
    result = chord([part, note.si(mark="other part")])(
        note.si(mark="body").on_error(note.si(mark="body failed"))
    )
    first.process.wait(30)
    lab.worker("threads", concurrency=1).process.wait(30)
    with pytest.raises((ChordError, DeadTaskError)):
        result.get(timeout=30)
    assert full.alive
    lab.worker("threads", concurrency=1)
    wait_until(lambda: len(lab.runs("note")) == 3 and lab.runs("by-id"), "errbacks ran")
    time.sleep(1.5)
    assert sorted(run["mark"] for run in lab.runs("note")) == ["body failed", "other part", "part"]
    assert len(lab.runs("by-id")) == 1
    assert len(lab.runs()) == 2
    assert len(lab.dead()) == 1
    assert not lab.client.xlen(lab.keys.of_queue("obituary", "celery"))
    lab.idle()
