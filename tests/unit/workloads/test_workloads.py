"""What each workload is: its rate, whose tasks they are, how long they take and how urgent."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest

from tests.unit.workloads.test_same_everywhere import recording
from tq_celery.errors import SettingsError, TraceError
from tq_celery.workloads.arrivals import Arrivals, Bursts
from tq_celery.workloads.deadlines import DeadlineRule
from tq_celery.workloads.durations import Pareto
from tq_celery.workloads.registry import MOST_TASKS, WORKLOADS, make_workload, weights
from tq_celery.workloads.trace import Trace
from tq_celery.workloads.work import Work

SYNTHETIC = ("uniform", "bursty", "heavy_tailed", "multi_tenant", "llm")


def load_of(works: list[Work], window: float, slots: int) -> float:
    return sum(work.seconds for work in works) / (window * slots)


def shares(works: list[Work]) -> dict[str, float]:
    counts = Counter(work.tenant for work in works)
    return {tenant: count / len(works) for tenant, count in counts.items()}


@pytest.mark.parametrize("name", SYNTHETIC)
def test_jobs_count_up_from_zero_in_the_order_of_their_times(name: str) -> None:
    works = make_workload(name, seed=1, window=5.0)
    assert [work.job for work in works] == list(range(len(works)))
    times = [work.at for work in works]
    assert times == sorted(times)
    assert times[0] == 0.0
    assert times[-1] < 5.0


@pytest.mark.parametrize("name", SYNTHETIC)
def test_every_number_is_a_whole_count_of_microseconds(name: str) -> None:
    for work in make_workload(name, seed=2, count=500):
        for value in (work.at, work.seconds, work.cost, work.deadline):
            assert value is not None
            assert value == round(value * 1e6) / 1e6


@pytest.mark.parametrize("name", SYNTHETIC)
def test_the_load_is_what_was_asked_for(name: str) -> None:
    """Over many tasks; of a heavy tail even those say little, so its bound is wide."""
    works = make_workload(name, seed=3, window=120.0, slots=8, load=0.8)
    wide = 0.15 if name == "heavy_tailed" else 0.03
    assert load_of(works, 120.0, 8) == pytest.approx(0.8, rel=wide)


def test_a_rate_is_tasks_per_second_whatever_they_take() -> None:
    for name in SYNTHETIC:
        assert len(make_workload(name, seed=4, window=50.0, rate=100.0)) == pytest.approx(
            5000, rel=0.05
        )


def test_priorities_are_five_levels_and_the_most_urgent_is_the_rarest() -> None:
    works = make_workload("uniform", seed=5, count=20_000)
    counts = Counter(work.priority for work in works)
    for level, share in enumerate((0.50, 0.25, 0.15, 0.07, 0.03)):
        assert counts[level] / len(works) == pytest.approx(share, abs=0.01)


def test_a_deadline_is_a_second_and_ten_times_the_run_time_and_up_to_a_fifth() -> None:
    works = make_workload("heavy_tailed", seed=6, count=2000)
    slack = [(work.deadline or 0.0) - 1.0 - 10 * work.seconds for work in works]
    assert min(slack) >= -1e-6
    assert max(slack) <= 0.2 + 1e-6
    assert sum(slack) / len(slack) == pytest.approx(0.1, rel=0.05)


def test_a_deadline_rule_of_ones_own_and_none_at_all() -> None:
    rule = DeadlineRule(base=5.0, factor=0.0, jitter=0.0)
    assert {w.deadline for w in make_workload("uniform", seed=1, count=9, deadline=rule)} == {5.0}
    assert {w.deadline for w in make_workload("uniform", seed=1, count=9, deadline=None)} == {None}
    for bad in ((-1.0, 1.0, 0.0), (0.0, 0.0, 0.2), (1.0, math.nan, 0.0), (1.0, 1.0, math.inf)):
        with pytest.raises(SettingsError, match="deadline"):
            DeadlineRule(*bad)


def test_uniform_and_bursty_run_40_to_60_ms_for_five_equal_tenants() -> None:
    for name in ("uniform", "bursty"):
        works = make_workload(name, seed=7, count=5000)
        assert all(0.040 <= work.seconds <= 0.060 for work in works)
        assert all(share == pytest.approx(0.2, abs=0.02) for share in shares(works).values())
        assert all(work.cost == work.seconds for work in works)


def test_multi_tenant_is_one_big_tenant_and_four_small_ones() -> None:
    found = shares(make_workload("multi_tenant", seed=8, count=20_000))
    assert found.pop("big") == pytest.approx(0.90, abs=0.01)
    assert sorted(found) == ["small-1", "small-2", "small-3", "small-4"]
    expected = (0.03, 0.03, 0.02, 0.02)
    assert [found[t] for t in sorted(found)] == pytest.approx(expected, abs=0.005)


def test_heavy_tailed_follows_its_distribution() -> None:
    works = make_workload("heavy_tailed", seed=9, count=50_000)
    seconds = sorted(work.seconds for work in works)
    assert seconds[0] >= 0.015
    assert seconds[-1] <= 4.0
    tailed = Pareto(1.3, 0.015, 4.0)
    for q in (0.25, 0.5, 0.9, 0.99):
        assert seconds[int(q * len(seconds))] == pytest.approx(tailed.seconds(q), rel=0.08)


def test_the_mean_of_a_truncated_pareto_is_the_integral_of_its_quantiles() -> None:
    for high in (4.0, 6.0):
        tailed = Pareto(1.3, 0.015, high)
        steps = 50_000
        middle = sum(tailed.seconds((i + 0.5) / steps) for i in range(steps)) / steps
        assert tailed.mean == pytest.approx(middle, rel=2e-3)
        assert tailed.seconds(0.0) == 0.015
        assert tailed.seconds(1 - 1e-15) == pytest.approx(high, rel=1e-6)


def test_longest_bounds_a_heavy_tail_and_its_rate_follows() -> None:
    short = make_workload("heavy_tailed", seed=1, window=60.0, longest=0.5)
    assert max(work.seconds for work in short) <= 0.5
    assert len(short) > len(make_workload("heavy_tailed", seed=1, window=60.0, longest=6.0))


def test_bursts_bring_nine_tenths_of_the_tasks_in_three_tenths_of_the_time() -> None:
    works = make_workload("bursty", seed=10, window=60.0)
    within = sum(work.at % 10.0 < 3.0 for work in works) / len(works)
    assert within == pytest.approx(0.9, abs=0.01)


def test_a_window_has_a_whole_number_of_bursts() -> None:
    assert Bursts().fitted(44.0).cycle == pytest.approx(11.0)
    assert Bursts().fitted(4.0).cycle == pytest.approx(4.0)
    works = make_workload("bursty", seed=11, window=44.0)
    assert load_of(works, 44.0, 16) == pytest.approx(1.25, rel=0.05)


def test_a_burst_keeps_order_and_whole_cycles() -> None:
    bursts = Bursts(cycle=10.0, on=0.3, share=0.9)
    warped = [bursts.warp(t / 10) for t in range(301)]
    assert warped == sorted(warped)
    assert [bursts.warp(t) for t in (0.0, 9.0, 10.0, 19.0, 20.0)] == pytest.approx(
        [0.0, 3.0, 10.0, 13.0, 20.0]
    )


def test_arrivals_are_whole_microseconds_from_zero() -> None:
    arrivals = Arrivals(rate=1.0)
    assert [arrivals.next(draw) for draw in (0.5, 0.0, 1 - math.exp(-2))] == [0, 0, 2_000_000]


def test_llm_tenants_keep_their_pace_their_cost_and_their_priority() -> None:
    works = make_workload("llm", seed=12, window=100.0)
    assert {(w.tenant, w.seconds, w.cost, w.priority) for w in works} == {
        ("chat", 0.090, 400.0, 2), ("reports", 0.180, 800.0, 0), ("agents", 0.100, 200.0, 4),
    }  # fmt: skip
    counts = Counter(work.tenant for work in works)
    for tenant, every in (("chat", 0.025), ("reports", 0.040), ("agents", 0.008)):
        assert counts[tenant] == pytest.approx(100.0 / every, rel=0.06)
    assert weights("llm") == {"chat": 2.0}
    assert weights("uniform") == weights("trace") == {}


def test_fixed_takes_what_it_is_told_even_nothing() -> None:
    works = make_workload("fixed", seed=1, count=100, seconds=0.0, rate=math.inf)
    assert {(work.at, work.seconds, work.cost) for work in works} == {(0.0, 0.0, 1e-6)}
    assert len(make_workload("fixed", seed=1, window=10.0, seconds=0.1, load=1.0)) == (
        pytest.approx(1600, rel=0.1)
    )
    with pytest.raises(SettingsError, match=r"rate: None .* where a task takes 0 seconds"):
        make_workload("fixed", seed=1, count=100, seconds=0.0)


def test_a_trace_offers_the_load_in_the_window(tmp_path: Path) -> None:
    works = make_workload("trace", seed=1, window=10.0, trace=recording(tmp_path), load=0.9)
    assert len(works) == 300
    assert works[-1].at == pytest.approx(10.0)
    assert load_of(works, 10.0, 16) == pytest.approx(0.9, rel=2e-3)
    assert {work.tenant for work in works} == {f"user-{n}" for n in range(7)}
    assert {work.priority for work in works} == set(range(5))


def test_a_trace_gives_no_more_jobs_than_asked_for(tmp_path: Path) -> None:
    path = recording(tmp_path)
    works = make_workload("trace", seed=1, count=100, trace=path, rate=50.0)
    assert len(works) == 100
    assert works[-1].at == pytest.approx(2.0)
    assert len(make_workload("trace", seed=1, window=10.0, trace=path, rate=20.0)) == 200


def test_a_csv_trace_is_known_by_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "requests.csv"
    rows = [f"2023-11-16 18:00:{i % 60:02d}.{i},{i},7" for i in range(10)]
    path.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]))
    works = make_workload("trace", seed=1, window=1.0, trace=str(path))
    assert [work.cost for work in works] == [float(7 + i) for i in range(10)]
    assert make_workload("trace", seed=1, window=1.0, trace=Trace.of(path)) == works
    path.write_text("when,ms\n1,2\n")
    with pytest.raises(SettingsError, match=r"trace: .*columns when, ms.* expected a time column"):
        make_workload("trace", seed=1, window=1.0, trace=path)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no.txt", "expected a .swf, .csv, .swf.gz or .csv.gz file"),
        ("none.swf", "No such file"),
        ("none.csv.gz", "No such file"),
    ],
)
def test_a_trace_that_is_none(name: str, words: str, tmp_path: Path) -> None:
    with pytest.raises((SettingsError, TraceError), match=words):
        make_workload("trace", seed=1, window=1.0, trace=tmp_path / name)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "unifrom"}, r"workload: 'unifrom' .*; did you mean 'uniform'\?"),
        ({"name": ""}, "workload: ''"),
        ({"seed": -1}, "seed: -1 .* from 0 to"),
        ({"seed": 1.5}, r"seed: 1\.5"),
        ({"window": None}, "count: None .* either a window or a count"),
        ({"count": 5}, "count: 5 .* either a window or a count"),
        ({"window": None, "count": 0}, "count: 0 .* from 1 to 1000000"),
        ({"window": None, "count": MOST_TASKS + 1}, "count: 1000001"),
        ({"window": 0.0}, r"window: 0\.0"),
        ({"window": math.nan}, "window: nan"),
        ({"window": math.inf}, "window: inf"),
        ({"window": "10"}, "window: '10'"),
        ({"window": 1e6}, "window: 1000000.0 .* at most 2500 seconds at 400 tasks/s"),
        ({"slots": 0}, "slots: 0"),
        ({"slots": True}, "slots: True"),
        ({"load": 0.0}, r"load: 0\.0"),
        ({"load": -1.0}, r"load: -1\.0"),
        ({"rate": 0.0}, r"rate: 0\.0"),
        ({"rate": math.inf}, "rate: inf"),
        ({"longest": 0.015}, r"longest: 0\.015"),
        ({"seconds": 1.0}, r"seconds: 1\.0 .* the run time of fixed"),
        ({"name": "fixed"}, "seconds: None"),
        ({"name": "fixed", "seconds": -1.0}, r"seconds: -1\.0"),
        ({"name": "trace"}, "trace: None .* a file for the trace workload"),
        ({"trace": "x.swf"}, r"trace: 'x\.swf' .* a file for the trace workload"),
    ],
)
def test_what_is_refused(changes: dict[str, object], words: str) -> None:
    arguments: dict[str, object] = {"name": "uniform", "seed": 1, "window": 1.0} | changes
    with pytest.raises(SettingsError, match=words):
        make_workload(arguments.pop("name"), **arguments)  # type: ignore[arg-type]


def test_the_names_are_in_the_table() -> None:
    from tq_celery.workloads import registry

    assert all(f"``{name}``" in (registry.__doc__ or "") for name in WORKLOADS)
