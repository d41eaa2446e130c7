"""How a replay is asked for and printed: options, tables, JSON and the Markdown page."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.unit.replay.test_run import run_of_two
from tq_celery.cli import main
from tq_celery.cli.groups import CommandError
from tq_celery.cli.output import plain
from tq_celery.cli.replay_report import (
    BEGIN,
    END,
    Report,
    as_json,
    as_text,
    update_page,
)
from tq_celery.replay.cluster import ClusterShape
from tq_celery.replay.engine import Run
from tq_celery.replay.feed import Event
from tq_celery.replay.summary import summarise
from tq_celery.traces import Skips
from tq_celery.workloads.scaling import Scale, Survey

LINE = "1 {} -1 {} " + "-1 " * 7 + "3" + " -1" * 6


def tq(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in ("replay", *arguments)], env={})


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "a.swf"
    path.write_text("".join(LINE.format(i, 10) + "\n" for i in range(5)))
    return path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "lifo"], "expected different ones of stock, fifo"),
        (["--policies", "wfq,wfq"], "expected different ones of"),
        (["--policies", ","], "expected different ones of"),
        (["--weight", "acme"], "expected TENANT=WEIGHT"),
        (["--weight", "acme=nan"], "with a weight from 0.001 to 1000000"),
        (["--weight", "acme=-1"], "with a weight from 0.001 to 1000000"),
        (["--span", "60"], "is not a duration"),
        (["--load", "0"], "--load"),
        (["--speedup", "-3"], "--speedup"),
        (["--jobs", "0"], "--jobs"),
        (["--slots", "2", "--workers", "3"], "3 workers have at least one slot each"),
        (["--pool", "solo"], "1 workers have exactly one slot each"),
        (["--time-column", "t"], "a .swf trace has fixed columns"),
        (["--load", "9", "--span", "4s", "--max-exec", "1ms"], "load: 9.0 is not allowed"),
        (["--output", "/nonexistent/raw.csv"], "cannot write /nonexistent/raw.csv"),
    ],
)
def test_bad_options_are_one_line_and_exit_2(
    trace: Path, arguments: list[str], message: str
) -> None:
    result = tq(trace, *arguments)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "x", "expected a name ending in .swf, .csv"),
        ("a.csv", "t,d\n1,1\n", "needs --time-column, and --duration-column or --cost-column"),
        ("a.swf", "1 2 3\n", "a.swf:1: the file has no usable job"),
        ("a.swf.gz", "1 2 3\n", "not gzip data"),
    ],
)
def test_a_trace_that_cannot_be_read_starts_nothing(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    path = tmp_path / name
    path.write_text(content)
    result = tq(path, "--output", tmp_path / "raw.csv")
    assert result.exit_code == 2
    assert message in result.stderr
    assert not list(tmp_path.glob("raw.csv*"))


def report(tmp_path: Path, *policies: str) -> Report:
    skips = Skips("a.swf")
    skips.add(7, "malformed", "3 fields instead of 18")
    found = Survey(3, 2, 20.0, {0: (3, 60.0)})
    shape = ClusterShape(slots=2)
    made = Report(tmp_path / "a.swf", found, Scale(10.0, 10.0), shape, skips, Path("raw.csv"))
    for policy in policies:
        run: Run = run_of_two()
        run.policy = policy
        run.apply(Event("S", 1, 105.0))
        run.apply(Event("F", 1, 107.0))
        made.summaries.append(summarise(run, 2))
    return made


def test_one_arm_shows_its_tenants(tmp_path: Path) -> None:
    text = "\n".join(as_text(report(tmp_path, "wfq"), top=1))
    assert "wfq        1.000  3.700  3.940  4.000" in text
    assert "a          2       4.0" in text
    assert "... and 1 more tenants" in text
    assert "the producer was late (p99 0.250 s" in text


def test_several_arms_stand_side_by_side(tmp_path: Path) -> None:
    text = "\n".join(as_text(report(tmp_path, "stock", "wfq"), top=9))
    assert "P95 STOCK  P95 WFQ" in text
    assert "b          1       2.0      0.500    0.500" in text


def test_the_heading_counts_what_was_skipped(tmp_path: Path) -> None:
    heading = "\n".join(report(tmp_path).heading())
    assert "a.swf: 3 jobs of 2 tenants" in heading
    assert "load 1.500 on 2 slots" in heading
    assert "skipped 1 line: malformed (first at line 7: 3 fields instead of 18)" in heading


def test_json_has_everything(tmp_path: Path) -> None:
    found: dict[str, Any] = json.loads(json.dumps(plain(as_json(report(tmp_path, "wfq")))))
    assert found["complete"] is True
    assert found["skipped"] == {"malformed": 1}
    assert found["results"][0]["policy"] == "wfq"
    assert [t["tenant"] for t in found["results"][0]["tenants"]] == ["a", "b"]


def test_a_page_is_changed_between_its_marks_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/tq", "replay", str(tmp_path / "a.swf")])
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    update_page(page, report(tmp_path, "wfq"), top=9)
    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}\n```\ntq replay a.swf\n")
    assert text.endswith(f"\n{END}\nafter\n")
    assert "old" not in text
    assert "| wfq | 1.000 |" in text
    assert str(tmp_path) not in text

    page.write_text("no marks")
    with pytest.raises(CommandError, match="has no marks"):
        update_page(page, report(tmp_path, "wfq"), top=9)
