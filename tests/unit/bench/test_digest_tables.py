"""Tables of a page: what a request gives, what is wrong with one, and pages out of date."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.__main__ import run
from bench.digest.marks import fill
from bench.digest.tables import make
from bench.digest.words import amount, with_spread
from bench.harness.errors import BenchError

FIGURES = """\
workload,load,exec,arm,scope,figure,repetitions,median,min,max,ideal
uniform,1.25,sleep,tq-fifo,all,latency_p95,5,0.5,0.4,0.6,0.45
uniform,1.25,sleep,tq-fifo,all,miss_rate,5,0.125,0,0.25,
uniform,1.25,sleep,tq-fifo,priority:0,latency_p95,5,1,1,1,
uniform,1.25,sleep,tq-fifo,priority:4,latency_p95,5,0.25,0.25,0.25,
uniform,1.25,sleep,tq-wfq,all,latency_p95,5,0.52,0.5,0.54,0.5
bursty,1.25,sleep,tq-fifo,all,latency_p95,5,12.345,10,20,
bursty,2,sleep,tq-fifo,all,latency_p95,1,30,30,30,
"""
VERDICTS = """\
name,measured,least,greatest,ideal,bound,repetitions,outcome,why
wfq: shares,1.1,1,1.2,1,at most 1.25,5,pass,
edf: misses,,,,,at most 1.1,0,not judged,no cells
all: shift,0.025,,,,at most 0.05,25,pass,
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "m.csv").write_text(FIGURES)
    (tmp_path / "m-verdicts.csv").write_text(VERDICTS)
    gate = {"rules": [{"rule": "Jain", "of": {"median": 1.0, "min": 0.9, "max": 1.0}, "ok": True}],
            "arms": {"redis": {"p50": 1.5}, "tq": {"p50": 0.75}}}  # fmt: skip
    (tmp_path / "gate.json").write_text(json.dumps(gate))
    return tmp_path


@pytest.mark.parametrize(
    "request_, headers, rows",
    [
        (
            "figures m figure=latency_p95 load=1.25",
            ["", "uniform", "bursty"],
            [["tq-fifo", "0.500 (0.400..0.600)", "12.3 (10..20)"],
             ["tq-wfq", "0.520 (0.500..0.540)", "-"]],
        ),
        (
            "figures m figure=latency_p95 load=1.25 arm=tq-w*,tq-f* show=median ideal=yes unit=ms",
            ["", "uniform", "bursty"],
            [["tq-wfq", "520; 500", "-"], ["tq-fifo", "500; 450", "12,345"]],
        ),
        (
            "figures m rows=scope scope=priority:* columns=figure workload=uniform",
            ["scope", "latency_p95"],
            [["priority:0", "1"], ["priority:4", "0.250"]],
        ),
        (
            "figures m workload=uniform columns=figure arm=tq-fifo",
            ["", "latency_p95", "miss_rate"],
            [["tq-fifo", "0.500 (0.400..0.600)", "12.5 % (0..25)"]],
        ),
        (
            "verdicts m",
            ["rule", "measured", "ideal", "bound", "verdict"],
            [["wfq: shares", "1.10 (1..1.20)", "1", "at most 1.25", "pass"],
             ["edf: misses", "-", "-", "at most 1.1", "not judged: no cells"],
             ["all: shift", "0.0250", "-", "at most 0.05", "pass"]],
        ),
        ("json gate path=rules", ["rule", "of", "ok"], [["Jain", "1 (0.900..1)", "True"]]),
        ("json gate path=arms", ["", "p50"], [["redis", "1.50"], ["tq", "0.750"]]),
    ],
)  # fmt: skip
def test_a_request_gives_a_table(data: Path, request_, headers, rows) -> None:
    table = make(request_, data)
    assert (table.headers, table.rows) == (headers, rows)


def test_repetitions_are_said_and_a_single_one_is_a_warning(data: Path) -> None:
    many = make("figures m figure=latency_p95 load=1.25", data)
    assert many.note == "Median of 5 repetitions (least..greatest)."
    assert "One repetition" in make("figures m figure=latency_p95 load=2", data).note
    assert make("verdicts m name=all*", data).note == "Median of 25 repetitions."
    assert "1 to 5" in make("figures m columns=load workload=bursty figure=latency_p95", data).note


def test_a_machine_is_listed_once_and_only_where_it_measured_something(tmp_path: Path) -> None:
    """Seen to fail: a finished run that was started again had a second machine without servers."""
    where = {
        "processor": "p", "cores": 2, "memory_gib": 4.0, "system": "s", "python": "3.11",
        "packages": dict.fromkeys(("celery", "kombu", "redis", "hiredis"), "1"),
        "servers": ["redis 7"],
    }  # fmt: skip
    again = {**where, "servers": []}
    sessions = [
        {"environment": environment, "cells": cells}
        for environment, cells in ((where, 3), (where, 1), (again, 0))
    ]
    (tmp_path / "m-about.json").write_text(json.dumps({"sessions": sessions}))
    (row,) = make("machine m", tmp_path).rows
    assert row[-1] == "redis 7"


@pytest.mark.parametrize(
    "request_, words",
    [
        ("figure m", "'figure' is not one of figures, ratios, verdicts, machine, json; did you"),
        ("figures", "is not KIND DATA"),
        ("figures n figure=latency_p95", "n.csv cannot be read"),
        ("figures m figure=latency_p59 load=2", "no figure 'latency_p59' among latency_p95"),
        ("figures m figure=latency_p95", "say which load: 1.25, 2"),
        ("figures m workload=uniform", "say which figure: latency_p95, miss_rate"),
        ("figures m rows=policy", "'policy' is not one of workload"),
        ("figures m figure=latency_p95 load=2 unit=h", "unit=h is not one of"),
        ("figures m figure=latency_p95 load=2 shown=median", "shown= is no option"),
        ("verdicts m name=priority*", "no rule of m is called"),
        ("json gate path=rule", "gate.json has no 'rule' there; did you mean 'rules'?"),
        ("json gate path=rules columns=rool", "no column 'rool' among rule"),
    ],
)
def test_what_is_wrong_is_said(data: Path, request_, words) -> None:
    with pytest.raises(BenchError) as error:
        make(request_, data)
    assert words in error.value.message


@pytest.mark.parametrize(
    "value, unit, text",
    [
        (0.0, "", "0"), (12345.6, "", "12,346"), (0.00123456, "", "0.00123"), (9.9951, "", "10.0"),
        (0.5, "%", "50 %"), (0.0123, "ms", "12.3"), (36.04, "x", "36.0 x"),
    ],
)  # fmt: skip
def test_numbers_have_three_digits_and_no_exponent(value, unit, text) -> None:
    assert amount(value, unit) == text


def test_bounds_that_are_the_same_are_left_out() -> None:
    assert with_spread(2, 2, 2) == "2"
    assert with_spread(2, 1, 2, "x") == "2 x (1..2)"


PAGE = """\
# Results
<!-- table: json gate path=arms -->
old
<!-- end -->
It took <!-- value: figures m arm=tq-wfq figure=latency_p95 unit=ms show=median -->?<!-- end --> ms.
"""


def test_a_page_is_filled_between_its_marks(data: Path) -> None:
    filled = fill(PAGE, data)
    assert "old" not in filled
    assert "| redis | 1.50 |" in filled
    assert "-->520<!-- end --> ms." in filled
    assert fill(filled, data) == filled


@pytest.mark.parametrize(
    "page, words",
    [
        ("<!-- table: json gate path=arms -->", "no '<!-- end -->' of its own"),
        (f"<!-- table: verdicts m -->\n{PAGE}", "no '<!-- end -->' of its own"),
        ("<!-- value: verdicts m -->?<!-- end -->", "3 x 4 figures, not one"),
        ("<!-- table: nothing -->?<!-- end -->", "<!-- table: nothing -->: 'nothing' is not KIND"),
    ],
)
def test_wrong_marks_are_errors(data: Path, page, words) -> None:
    with pytest.raises(BenchError) as error:
        fill(page, data)
    assert words in error.value.message


def test_the_command_checks_and_writes(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = data / "page.md"
    page.write_text(PAGE)
    assert run(["tables", str(page), "--data", str(data), "--check"]) == 2
    assert "is not what its data says" in capsys.readouterr().err
    assert page.read_text() == PAGE
    assert run(["tables", str(page), "--data", str(data)]) == 0
    assert run(["tables", str(page), "--data", str(data), "--check"]) == 0
    page.write_text(page.read_text().replace("520", "519"))
    assert run(["tables", str(page), "--data", str(data), "--check"]) == 2


def test_a_page_that_is_wrong_is_left_alone(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = data / "page.md"
    page.write_text(PAGE + "<!-- table: nothing -->\n<!-- end -->\n")
    before = page.read_text()
    assert run(["tables", str(page), "--data", str(data)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"bench: {page}: <!-- table: nothing -->")
    assert page.read_text() == before
    assert run(["tables", str(data / "none.md")]) == 2
