"""The page of a run: self-contained, escaped, and open about what limits it."""

from __future__ import annotations

import dataclasses
import re

import pytest

from bench.__main__ import run as bench
from bench.harness.page.cautions import cautions
from bench.harness.results import Manifest, Results
from bench.harness.summary import summarise
from bench.harness.verdicts import judge
from tests.unit.bench.lab_runs import ENVIRONMENT, PROFILE, cells, run_of

PLANNED = cells()


def manifest(**changes) -> Manifest:
    made = Manifest.of("matrix", PROFILE, PLANNED, {})
    made.sessions = [
        {"started": "2026-01-01T00:00:00+00:00", "environment": ENVIRONMENT, "cells": 4}
    ]
    return dataclasses.replace(made, **changes)


@pytest.fixture(scope="module")
def summaries():
    return [summarise(run_of(cell)) for cell in PLANNED]


def test_a_whole_run_needs_no_caution(summaries):
    assert cautions(manifest(), summaries) == []


def test_what_limits_a_run_is_said(summaries):
    once = cautions(manifest(), summaries[:2])
    assert "once only" in once[0]
    assert once[1].startswith("2 of 4 planned cells are not there")
    void = dataclasses.replace(summaries[3], ending="timed-out")
    assert "multi_tenant-tq-wfq-x1.25-sleep-r1 (timed-out)" in "".join(
        cautions(manifest(), [*summaries[:3], void])
    )
    late = dataclasses.replace(summaries[0], lag_p99=0.2)
    assert "200 ms" in "".join(cautions(manifest(), [late, *summaries[1:]]))
    beside = dataclasses.replace(summaries[0], others=0.41)
    (said,) = cautions(manifest(), [beside, *summaries[1:]])
    assert said.startswith("In 1 cells others were using the machine")
    assert "at most 0.41" in said
    assert "No cell is complete" in cautions(manifest(), [])[0]


def test_sessions_that_differ_are_named(summaries):
    environment = {**ENVIRONMENT, "commit": "def", "load": 1.9}
    other = {"started": "later", "environment": environment, "cells": 2}
    said = "".join(cautions(manifest(sessions=[*manifest().sessions, other]), summaries))
    assert "2 sessions that differ in commit" in said
    assert "load 1.9" in said
    assert "differ in load" not in said
    idle = {**other, "cells": 0}
    assert cautions(manifest(sessions=[*manifest().sessions, idle]), summaries) == []


def test_the_page_holds_everything_and_asks_for_nothing(tmp_path):
    with Results.open(tmp_path / "run", "matrix", PROFILE, PLANNED, ENVIRONMENT) as results:
        for cell in PLANNED[:3]:
            results.add(run_of(cell))
        results.add(
            run_of(PLANNED[3], ending="failed", reason="<b>worker</b> & co",
                   dead_letters=({"reason": "<script>"},))
        )  # fmt: skip
        page = results.finish(judge("matrix", results.summaries()))
    html = page.read_text()
    assert html.count("data:image/svg+xml;base64,") == len(
        list((page.parent / "plots").glob("*.svg"))
    )
    assert not re.search(r'(src|href)="(?!data:|#)', html)
    assert "&lt;b&gt;worker&lt;/b&gt; &amp; co" in html
    assert "<script" not in html
    assert "multi_tenant-tq-wfq-x1.25-sleep-r1 (failed)" in html
    for name in ("aggregate.csv", "tenants.csv", "priorities.csv", "verdicts.json"):
        assert (page.parent / name).stat().st_size > 0
    # Made anew from the raw data alone, it is the same to the last byte.
    derived = {path: path.read_bytes() for path in page.parent.rglob("*") if path.is_file()}
    for path in derived:
        if path.parent.name not in ("raw", "dead_letters") and path.name != "manifest.json":
            path.unlink()
    (page.parent / "plots" / "stale.png").write_bytes(b"")
    assert bench(["report", str(page.parent)]) == 0
    again = {path: path.read_bytes() for path in page.parent.rglob("*") if path.is_file()}
    assert again == derived


def test_the_commands_answer_with_one_line(tmp_path, capsys):
    assert bench(["report", str(tmp_path / "nothing")]) == 2
    assert bench(["merge", str(tmp_path / "out"), str(tmp_path)]) == 2
    assert bench(["merge", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 3
    assert all(line.startswith("bench: ") for line in said)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_merged_runs_have_a_report(tmp_path, capsys):
    for number, part in enumerate((PLANNED[:2], PLANNED[2:])):
        with Results.open(tmp_path / str(number), "matrix", PROFILE, part, ENVIRONMENT) as results:
            for cell in part:
                results.add(run_of(cell))
    assert bench(["merge", *(str(tmp_path / name) for name in ("out", "0", "1"))]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "out/report.html")
    html = (tmp_path / "out/report.html").read_text()
    assert "4 of 4 cells complete" in html
    assert "from 1" in html
