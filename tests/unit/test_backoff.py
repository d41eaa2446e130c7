"""``retry_backoff="decorrelated"``: the formula, and where the word may stand."""

from __future__ import annotations

import random
import statistics
import weakref
from typing import Any

import pytest
from celery import Celery, _state, shared_task

from tq_celery import TQ, OptionError, TQTask
from tq_celery.backoff import Backoff, is_decorrelated, read_previous


def sleeps(backoff: Backoff, tries: int, seed: int) -> list[float]:
    uniform, last, found = random.Random(seed).uniform, None, []
    for _ in range(tries):
        last = backoff.next(last, uniform)
        found.append(last)
    return found


def test_each_sleep_is_drawn_between_base_and_three_times_the_last() -> None:
    backoff = Backoff(base=0.5, cap=60.0)
    for seed in range(200):
        last = backoff.base
        for sleep in sleeps(backoff, 12, seed):
            assert 0.5 <= sleep <= min(60.0, 3 * last)
            last = sleep


def test_the_draw_is_uniform() -> None:
    """First sleeps over (base, 3 base): mean and quartiles within three standard errors."""
    first = [sleeps(Backoff(1.0, 600.0), 1, seed)[0] for seed in range(4000)]
    assert statistics.mean(first) == pytest.approx(2.0, abs=3 * 0.577 / 4000**0.5)
    quartiles = statistics.quantiles(first, n=4)
    assert quartiles == pytest.approx([1.5, 2.0, 2.5], abs=0.05)


def test_sleeps_grow_to_the_cap_and_stay_spread_below_it() -> None:
    late = [sleeps(Backoff(1.0, 20.0), 30, seed)[-1] for seed in range(1000)]
    assert max(late) == 20.0
    assert 0.3 < sum(each == 20.0 for each in late) / 1000 < 0.8
    assert statistics.stdev(late) > 3


def test_a_sleep_that_cannot_be_ours_counts_as_none() -> None:
    nonsense: list[object] = ["3", None, True, float("nan"), -1, []]
    assert [read_previous(value) for value in nonsense] == [None] * 6
    assert read_previous(7) == 7.0
    # longer than the cap: the message was written under other options
    assert Backoff(1.0, 10.0).next(1e300, lambda low, high: high) == 10.0
    assert Backoff(1.0, 10.0).next(1e-9, lambda low, high: high) == 3.0


def test_other_values_are_celerys() -> None:
    assert [is_decorrelated(each) for each in (True, False, 3, 0.5, "2", None)] == [False] * 6
    with pytest.raises(OptionError, match='decorelated.*True, False, a number or "decorrelated"'):
        is_decorrelated("decorelated")


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Celery:
    monkeypatch.setattr(_state, "_on_app_finalizers", set())
    monkeypatch.setattr(_state, "_apps", weakref.WeakSet())
    return Celery("backoff", broker="memory://", set_as_current=False)


def boom() -> None:
    raise KeyError


def test_a_declaration(app: Celery) -> None:
    tq = TQ(app)
    task = tq.task(autoretry_for=(KeyError,), retry_backoff="decorrelated", retry_backoff_max=30)(
        boom
    )
    assert task.tq_backoff == Backoff(1.0, 30.0)
    assert task.retry_backoff is False
    assert tq.task(name="fast", retry_backoff="decorrelated", retry_backoff_base=0.2)(
        boom
    ).tq_backoff == Backoff(0.2, 600.0)
    assert tq.task(name="stock", retry_backoff=2)(boom).tq_backoff is None


def test_shared_tasks_and_classes(app: Celery) -> None:
    TQ(app)
    shared_task(base=TQTask, name="s", retry_backoff="decorrelated")(boom)

    class Patient(TQTask):
        abstract = True
        retry_backoff: object = "decorrelated"
        retry_backoff_base = 5

    class Job(Patient):
        name = "job"
        retry_backoff_max = 50

        def run(self) -> None: ...

    class Stock(Patient):
        name = "stock"
        retry_backoff = 3

        def run(self) -> None: ...

    job, stock = app.register_task(Job()), app.register_task(Stock())
    app.finalize()
    assert app.tasks["s"].tq_backoff == Backoff()
    assert (job.tq_backoff, job.retry_backoff) == (Backoff(5.0, 50.0), False)
    assert (stock.tq_backoff, stock.retry_backoff) == (None, 3)


def test_an_annotation(app: Celery) -> None:
    """``task_annotations`` changes a task after it was declared."""
    app.conf.task_annotations = {
        "a": {"retry_backoff": "decorrelated"},
        "b": {"retry_backoff": 2},
        "c": {"retry_backoff_max": 9},
    }
    tq = TQ(app)
    a = tq.task(name="a", autoretry_for=(KeyError,))(boom)
    b = tq.task(name="b", retry_backoff="decorrelated")(boom)
    c = tq.task(name="c", retry_backoff="decorrelated")(boom)
    app.finalize()
    assert (a.tq_backoff, b.tq_backoff, c.tq_backoff) == (Backoff(), None, Backoff(1.0, 9.0))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"retry_backoff": "exponential"}, "retry_backoff: 'exponential' is not allowed"),
        ({"retry_backoff_base": 0}, "retry_backoff_base: 0 is not allowed; expected a number"),
        ({"retry_backoff_max": "1h"}, "retry_backoff_max: '1h' is not allowed; expected a number"),
        ({"retry_backoff_base": 700}, r"at most retry_backoff_max \(600 s\)"),
        ({"retry_jitter": False}, "retry_jitter: False is not allowed"),
    ],
)
def test_a_bad_option_fails_at_the_declaration(
    app: Celery, options: dict[str, Any], words: str
) -> None:
    tq = TQ(app)
    with pytest.raises(OptionError, match=words):
        tq.task(**{"retry_backoff": "decorrelated", **options})(boom)


def test_tasks_that_are_not_scheduled_are_celerys_own(app: Celery) -> None:
    """Celery reads the option as a number, and says so."""
    TQ(app)
    with pytest.raises(ValueError, match="could not convert string to float"):
        app.task(retry_backoff="decorrelated", lazy=False)(boom)
