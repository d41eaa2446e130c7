"""The Standard Workload Format reader: what it yields, what it leaves out, when it refuses."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tq_celery.errors import TraceError
from tq_celery.traces import Job, Skips, read_swf


def swf_line(submit: object, run_time: object, user: object = 3, number: int = 1) -> str:
    fields: list[object] = [-1] * 18
    fields[0], fields[1], fields[3], fields[11] = number, submit, run_time, user
    return " ".join(str(field) for field in fields)


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def test_jobs_start_at_zero_and_belong_to_their_user(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.swf", "; Version: 2.2", "", swf_line(100, 5, 7), "  " + swf_line(103, 0, -1)
    )
    assert list(read_swf(path)) == [
        Job(0.0, 5.0, "user-7", 5.0),
        Job(3.0, 0.0, "user-unknown", 0.0),
    ]


def test_gzip_is_recognised_by_content(tmp_path: Path) -> None:
    path = tmp_path / "a.swf"
    path.write_bytes(gzip.compress((swf_line(0, 1) + "\n").encode()))
    assert len(list(read_swf(path))) == 1


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (swf_line(1, -1), "run time unknown"),
        (swf_line(1, -5), "negative run time"),
        (swf_line(-1, 5), "submit time unknown"),
        (swf_line(-7, 5), "negative submit time"),
        ("1 2 3", "malformed"),
        (swf_line(1, "soon"), "malformed"),
        (swf_line(1, "nan"), "malformed"),
        (swf_line(1, "1e999"), "malformed"),
        (swf_line("inf", 4), "malformed"),
        (swf_line(1, 4, "root"), "malformed"),
        (swf_line(1, 4) + " 9", "malformed"),
        ("\x00\x01\x02", "malformed"),
    ],
)
def test_lines_that_are_no_job_are_counted_with_their_number(
    tmp_path: Path, line: str, reason: str
) -> None:
    path = write(tmp_path / "a.swf", "; header", swf_line(0, 1), line, line, swf_line(9, 1))
    skips = Skips(str(path))
    assert len(list(read_swf(path, skips))) == 2
    assert skips.counts() == {reason: 2}
    assert skips.total == 2
    assert f"skipped 2 lines: {reason} (first at line 3" in skips.lines()[0]

    with pytest.raises(TraceError, match=rf"a\.swf:3: {reason}") as caught:
        list(read_swf(path, Skips(str(path), strict=True)))
    assert caught.value.line == 3


def test_a_job_submitted_before_its_predecessor_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "a.swf", swf_line(5, 1), swf_line(9, 1), swf_line(7, 1), swf_line(9, 2))
    skips = Skips(str(path))
    assert [job.submit for job in read_swf(path, skips)] == [0.0, 4.0, 4.0]
    assert skips.counts() == {"out of order": 1}


def test_a_truncated_gzip_yields_its_head_and_then_fails(tmp_path: Path) -> None:
    whole = gzip.compress("\n".join(swf_line(i, i % 977) for i in range(20_000)).encode())
    path = tmp_path / "a.swf.gz"
    path.write_bytes(whole[: len(whole) // 2])
    jobs = []
    with pytest.raises(TraceError, match="truncated; this is not the whole trace") as caught:
        for job in read_swf(path):
            jobs.append(job)
    assert 0 < len(jobs) < 20_000
    assert caught.value.line >= len(jobs)


def test_damaged_gzip_is_named_as_such(tmp_path: Path) -> None:
    whole = bytearray(gzip.compress(b"".join(swf_line(i, 1).encode() for i in range(500))))
    whole[-6] ^= 0xFF
    path = tmp_path / "a.swf.gz"
    path.write_bytes(whole)
    with pytest.raises(TraceError, match="damaged"):
        list(read_swf(path))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.swf", b"", "the file is empty"),
        ("a.swf.gz", b"", "the file is empty"),
        ("a.swf.gz", b"1 2 3\n", "not gzip data"),
        ("a.swf", b"; only\n; comments\n", "the file has no job"),
        ("a.swf", b"job,run\n1,2\n", r":1: the file has no usable job; here malformed"),
        ("a.swf", b"9" * ((1 << 20) + 1), "longer than"),
    ],
)
def test_a_file_without_jobs_is_an_error(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(TraceError, match=message):
        list(read_swf(path))


def test_a_missing_file_and_a_directory_are_trace_errors(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="No such file"):
        list(read_swf(tmp_path / "none.swf"))
    with pytest.raises(TraceError, match="directory"):
        list(read_swf(tmp_path))


@given(
    st.lists(
        st.one_of(
            st.text(max_size=60),
            st.builds(
                swf_line, st.integers(-2, 99), st.one_of(st.integers(-2, 99), st.text(max_size=5))
            ),
        ),
        max_size=20,
    )
)
def test_any_text_yields_well_formed_jobs_or_a_trace_error(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    path = tmp_path_factory.mktemp("swf") / "a.swf"
    path.write_text("\n".join(lines), encoding="utf-8", errors="replace")
    skips = Skips(str(path))
    jobs: list[Job] = []
    with contextlib.suppress(TraceError):
        jobs = list(read_swf(path, skips))
    assert not jobs or jobs[0].submit == 0.0
    assert all(a.submit <= b.submit for a, b in itertools.pairwise(jobs))
    assert all(job.duration >= 0 for job in jobs)


@pytest.mark.slow
def test_reading_takes_the_same_memory_for_a_hundred_times_the_jobs(tmp_path: Path) -> None:
    peaks = []
    for jobs in (500, 50_000):
        path = tmp_path / f"{jobs}.swf.gz"
        path.write_bytes(gzip.compress("\n".join(swf_line(i, 1) for i in range(jobs)).encode()))
        tracemalloc.start()
        assert sum(1 for _ in read_swf(path)) == jobs
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 200_000
