"""How recorded time becomes replayed time."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tq_celery.errors import SettingsError
from tq_celery.traces import Job
from tq_celery.workloads.scaling import Scale, choose_scale, scaled, survey
from tq_celery.workloads.work import Work

JOBS = [
    Job(0.0, 100.0, "a", 3.0),
    Job(50.0, 300.0, "b", 4.0),
    Job(100.0, 0.0, "a", 5.0),
]


def test_a_speedup_divides_submit_and_run_times_alike() -> None:
    scale = choose_scale(survey(JOBS), 4, speedup=10.0, max_exec=20.0)
    assert scale == Scale(10.0, 10.0, 20.0)
    assert list(scaled(JOBS, scale)) == [
        Work(0, 0.0, 10.0, "a", 10.0),
        Work(1, 5.0, 20.0, "b", 20.0),
        Work(2, 10.0, 0.0, "a", 1e-6),
    ]


def test_without_a_speedup_submissions_take_the_span_asked_for() -> None:
    scale = choose_scale(survey(JOBS), 4, span=25.0)
    assert scale.speedup == pytest.approx(4.0)


def test_a_load_scales_run_times_only() -> None:
    found = survey(JOBS)
    scale = choose_scale(found, 4, speedup=10.0, load=1.25)
    # 10 s of submissions on 4 slots at 1.25 are 50 worker seconds out of 400.
    assert scale.speedup == 10.0
    assert scale.run_speedup == pytest.approx(8.0)
    assert found.load(scale, 4) == pytest.approx(1.25)


def test_the_cap_is_part_of_the_load() -> None:
    found = survey(JOBS)
    scale = choose_scale(found, 1, speedup=10.0, load=0.9, max_exec=5.0)
    # 9 worker seconds of at most 5 each: 300 s become 5 s, so 100 s must become 4 s.
    assert [work.seconds for work in scaled(JOBS, scale)] == pytest.approx([4.0, 5.0, 0.0])


def test_a_load_above_the_cap_names_what_is_possible() -> None:
    with pytest.raises(
        SettingsError, match=r"load: 1.25 .* less than 1 with run times of at most 5 s"
    ):
        choose_scale(survey(JOBS), 1, speedup=10.0, load=1.25, max_exec=5.0)


def test_a_load_needs_work_and_time() -> None:
    for jobs in ([Job(0.0, 5.0, "a", 1.0)], [Job(0.0, 0.0, "a", 1.0), Job(9.0, 0.0, "a", 1.0)]):
        with pytest.raises(SettingsError, match="more than one submit time"):
            choose_scale(survey(jobs), 1, speedup=1.0, load=1.0)


def test_cost_rules() -> None:
    for rule, expected in (("run-time", 50.0), ("trace", 3.0), ("one", 1.0)):
        work = next(scaled(JOBS, Scale(2.0, 2.0, None, rule)))  # type: ignore[arg-type]
        assert work.cost == expected


@given(
    st.lists(st.floats(0.001, 1e6), min_size=2, max_size=40),
    st.floats(0.1, 10.0),
    st.floats(0.01, 100.0),
)
def test_the_load_asked_for_is_the_load_offered(
    durations: list[float], load: float, cap: float
) -> None:
    jobs = [Job(float(i), d, "a", d) for i, d in enumerate(durations)]
    found = survey(jobs)
    assume(load * 16 * found.span < cap * len(jobs) * 0.999)
    scale = choose_scale(found, 16, speedup=1.0, load=load, max_exec=cap)
    offered = sum(work.seconds for work in scaled(jobs, scale)) / (16 * found.span)
    assert offered == pytest.approx(load, rel=2e-3)
