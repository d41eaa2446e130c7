"""The CSV reader: named columns, time forms, costs that are added up, rows left out."""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tq_celery.errors import TraceError
from tq_celery.traces import CsvColumns, Job, Skips, read_csv

LLM = CsvColumns("TIMESTAMP", cost=("ContextTokens", "GeneratedTokens"), seconds_per_cost=0.5)
PLAIN = CsvColumns("t", duration="d", tenant="who")


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "a.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_costs_are_added_and_stand_in_for_the_run_time(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:46.6805900,374,44\n"
        "2023-11-16 18:15:48.1805900,1,1\n",
    )
    first, second = read_csv(path, LLM)
    assert first == Job(0.0, 209.0, "default", 418.0)
    assert second.submit == pytest.approx(1.5)
    assert second.cost == 2.0


def test_units_tenants_and_quotes(tmp_path: Path) -> None:
    path = write(tmp_path, '\ufefft,d,who\n1000,250,"a,b"\n1500,0,\n')
    columns = CsvColumns("t", duration="d", tenant="who", time_unit=1e-3, duration_unit=1e-3)
    assert list(read_csv(path, columns)) == [
        Job(0.0, 0.25, "a,b", 0.25),
        Job(0.5, 0.0, "default", 0.0),
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("10", "12.5"),
        ("2023-11-16T18:15:46Z", "2023-11-16T18:15:48.5Z"),
        ("2023-11-16 18:15:46", "2023-11-16 18:15:48.5+00:00"),
        ("2023-11-16T18:15:46+02:00", "2023-11-16T16:15:48.500000000Z"),
    ],
)
def test_time_forms(tmp_path: Path, first: str, second: str) -> None:
    path = write(tmp_path, f"t,d,who\n{first},1,x\n{second},1,x\n")
    assert [job.submit for job in read_csv(path, PLAIN)] == pytest.approx([0.0, 2.5])


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("3,,x", "run time unknown"),
        ("3,-1,x", "run time unknown"),
        ("3,-4,x", "negative run time or cost"),
        ("3,four,x", "malformed"),
        ("3,nan,x", "malformed"),
        ("yesterday,4,x", "malformed"),
        ("3,4", "malformed"),
        ("3,4,x,y", "malformed"),
        ("0,4,x", "out of order"),
        ("3,4," + "é" * 129, "malformed"),
        ('3,4,"' + "x" * 200_000, "malformed"),
    ],
)
def test_rows_that_are_no_job_are_counted_with_their_line(
    tmp_path: Path, row: str, reason: str
) -> None:
    path = write(tmp_path, f"t,d,who\n1,1,x\n{row}\n")
    skips = Skips(str(path))
    assert len(list(read_csv(path, PLAIN, skips))) == 1
    assert skips.counts() == {reason: 1}
    with pytest.raises(TraceError, match=rf"a\.csv:3: {reason}"):
        list(read_csv(path, PLAIN, Skips(str(path), strict=True)))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (CsvColumns("T", duration="d"), r":1: no column 'T'"),
        (CsvColumns("t", duration="dd"), r"no column 'dd'; did you mean 'd'\? \(columns: t, d"),
        (CsvColumns("t", cost=("tokens",)), "no column 'tokens'"),
        (CsvColumns("t", duration="d", tenant="user"), "no column 'user'"),
        (CsvColumns("t"), "name a duration column or a cost column"),
    ],
)
def test_unknown_columns_are_refused_at_once(
    tmp_path: Path, columns: CsvColumns, message: str
) -> None:
    path = write(tmp_path, "t,d,who\n1,1,x\n")
    with pytest.raises(TraceError, match=message):
        list(read_csv(path, columns))


def test_an_ambiguous_column_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "t,d,d\n1,1,2\n")
    with pytest.raises(TraceError, match="column 'd' appears 2 times"):
        list(read_csv(path, CsvColumns("t", duration="d")))


@pytest.mark.parametrize("text", ["", "t,d,who\n", "t,d,who\n1,-1,x\n"])
def test_a_file_without_jobs_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(TraceError):
        list(read_csv(write(tmp_path, text), PLAIN))


@given(st.lists(st.lists(st.text(max_size=8), max_size=4), max_size=12))
def test_any_rows_yield_well_formed_jobs_or_a_trace_error(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]
) -> None:
    out = io.StringIO()
    csv.writer(out).writerows([["t", "d", "who"], *rows])
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    path.write_text(out.getvalue(), encoding="utf-8", errors="replace")
    jobs: list[Job] = []
    with contextlib.suppress(TraceError):
        jobs = list(read_csv(path, PLAIN))
    assert not jobs or jobs[0].submit == 0.0
    assert all(a.submit <= b.submit for a, b in itertools.pairwise(jobs))
    assert all(job.duration >= 0 and len(job.tenant.encode()) <= 256 for job in jobs)


@given(
    st.lists(
        st.tuples(
            st.floats(0, 1e6), st.floats(0, 1e6), st.sampled_from(["a", "b,c", 'd"e', "f\ng"])
        ),
        min_size=1,
    )
)
def test_sorted_rows_come_back_as_written(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[float, float, str]]
) -> None:
    rows = sorted(rows)
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([("t", "d", "who"), *rows])
    skips = Skips(str(path))
    jobs = list(read_csv(path, PLAIN, skips))
    assert skips.total == 0
    assert jobs == [Job(t - rows[0][0], d, who, d) for t, d, who in rows]
