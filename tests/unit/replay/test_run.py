"""The bookkeeping of a run: events in, records out, and what is kept as raw data."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tq_celery.errors import ReplayError
from tq_celery.replay.engine import Record, Run
from tq_celery.replay.feed import Event, Feed
from tq_celery.replay.pacing import Producer, Submitted
from tq_celery.replay.progress import Progress
from tq_celery.replay.raw import RawFile
from tq_celery.replay.summary import summarise
from tq_celery.workloads.work import Work

WORK = [Work(i, float(i), 2.0, tenant, 1.0) for i, tenant in enumerate("aab")]


def run_of_two() -> Run:
    run = Run("wfq", total=3)
    run.submit(Submitted(work, 100.0 + work.at, 0.25) for work in WORK)
    for event in (
        Event("S", 0, 101.0), Event("S", 2, 102.5), Event("F", 0, 103.0), Event("F", 2, 104.5),
    ):  # fmt: skip
        run.apply(event)
    return run


def test_events_move_tasks_from_waiting_to_running_to_records() -> None:
    run = run_of_two()
    assert run.records == [
        Record(WORK[0], 100.0, 0.25, 101.0, 103.0),
        Record(WORK[2], 102.0, 0.25, 102.5, 104.5),
    ]
    assert list(run.waiting) == [1]
    run.apply(Event("S", 1, 105.0))
    assert list(run.running) == [1]
    assert not run.waiting


def test_a_second_execution_is_counted_and_changes_no_record() -> None:
    run = run_of_two()
    before = list(run.records)
    run.apply(Event("S", 0, 110.0))
    run.apply(Event("F", 0, 112.0))
    assert run.repeats == 1
    assert run.records == before


def test_warm_up_tasks_are_no_repeats() -> None:
    run = run_of_two()
    run.apply(Event("S", -1, 99.0))
    assert run.repeats == 0


def test_the_feed_returns_whole_lines_once(tmp_path: Path) -> None:
    path = tmp_path / "7.events"
    feed = Feed(tmp_path)
    assert feed.poll() == []
    path.write_text("R 0 0\nS 3 1.5\nF 3 2")
    assert feed.poll() == [Event("R", 0, 0.0), Event("S", 3, 1.5)]
    path.write_text("R 0 0\nS 3 1.5\nF 3 2.25\n")
    assert feed.poll() == [Event("F", 3, 2.25)]
    assert feed.poll() == []


def test_the_producer_keeps_time_and_tells_what_it_submitted() -> None:
    sent: list[Work] = []
    producer = Producer([work._replace(at=work.at / 100) for work in WORK], sent.append)
    producer.start()
    producer.join(10.0)
    taken = producer.taken()
    assert [item.work for item in taken] == sent
    assert len(sent) == 3
    assert all(item.lag >= 0 for item in taken)
    assert taken[2].at - taken[0].at >= 0.015
    assert producer.error is None


def test_the_producer_keeps_the_error_that_ended_it() -> None:
    def refuse(work: Work) -> None:
        raise ConnectionError("away")

    producer = Producer(WORK, refuse)
    producer.start()
    producer.join(10.0)
    assert isinstance(producer.error, ConnectionError)


def test_halting_ends_the_wait_for_the_next_task() -> None:
    producer = Producer([WORK[0], WORK[1]._replace(at=600.0)], lambda work: None)
    producer.start()
    producer.halt()
    assert not producer.is_alive()


def test_the_summary_of_a_run() -> None:
    run = run_of_two()
    run.apply(Event("S", 1, 105.0))
    run.apply(Event("F", 1, 107.0))
    summary = summarise(run, slots=2)
    assert [(t.tenant, t.jobs, t.service, t.waits.max) for t in summary.tenants] == [
        ("a", 2, 4.0, 4.0),
        ("b", 1, 2.0, 0.5),
    ]
    assert (summary.jobs, summary.elapsed, summary.waits.p50) == (3, 7.0, 1.0)
    assert summary.throughput == pytest.approx(3 / 7)
    assert summary.utilisation == pytest.approx(6 / 14)
    assert summary.typical_p95 == pytest.approx((3.85 + 0.5) / 2)
    assert summary.lag.max == 0.25


def test_raw_records_have_their_name_only_when_the_run_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "raw.csv"
    with pytest.raises(RuntimeError), RawFile(path) as raw:
        raw.add(run_of_two())
        raise RuntimeError
    assert not path.exists()
    assert len(Path(f"{path}.partial").read_text().splitlines()) == 3

    with RawFile(path) as raw:
        raw.add(run_of_two())
    assert not Path(f"{path}.partial").exists()
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert [(row["job"], row["tenant"], row["wait"]) for row in rows] == [
        ("0", "a", "1.000000"),
        ("2", "b", "0.500000"),
    ]


def test_raw_records_that_cannot_be_written_are_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match=r"cannot write .*: No such file"):
        RawFile(tmp_path / "none" / "raw.csv").__enter__()


def test_the_progress_line_says_how_far_and_how_long() -> None:
    run = run_of_two()
    run.began = 100.0
    progress = Progress("wfq", slots=1, span=3.0, work=6.0)
    line = progress.line(run, now=102.0)
    assert line.startswith("wfq [################--------] 2/3 done, 1 waiting, 0 running")
    assert line.endswith("0m02s left")
