"""A run's folder: what is kept, what is resumed, and what is refused with one line."""

from __future__ import annotations

import csv
import dataclasses
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench.harness.errors import BenchError
from bench.harness.process import ROOT, python_env
from bench.harness.results import Results
from bench.harness.results.rows import number
from tests.unit.bench.lab_runs import ENVIRONMENT, PROFILE, cells, run_of

PLANNED = cells()


def start(folder, **changes):
    given = {
        "experiment": "matrix", "profile": PROFILE, "cells": PLANNED, "environment": ENVIRONMENT,
        **changes,
    }  # fmt: skip
    return Results.open(folder, **given)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_cell_comes_back_as_it_was(tmp_path):
    letters = ({"id": "a,b", "reason": "budget"},)
    run = run_of(PLANNED[0], dead_letters=letters, ending="timed-out", reason='a "reason", two')
    with start(tmp_path / "run") as results:
        results.add(run)
    with Results.read(tmp_path / "run") as results:
        (found,) = results.runs()
    assert found.dead_letters == letters
    assert dataclasses.replace(found, rows=(), ideal=()) == dataclasses.replace(
        run, rows=(), ideal=()
    )
    assert found.ideal == run.ideal
    assert [row.job for row in found.rows] == [row.job for row in run.rows]
    # Times are kept to the microsecond.
    assert all(
        abs(a - b) <= 5e-7
        for ours, its in zip(found.rows, run.rows, strict=True)
        for a, b in zip(ours, its, strict=True)
        if isinstance(a, float) and isinstance(b, float)
    )


def test_rows_without_an_end_or_an_ideal_have_empty_columns(tmp_path):
    run = run_of(PLANNED[0])
    lost = run.rows[0]._replace(started=None, finished=None, executions=0, outcome="missing")
    with start(tmp_path / "run") as results:
        results.add(dataclasses.replace(run, rows=(lost, *run.rows[1:]), ideal=()))
        (found,) = results.runs()
    assert found.rows[0].finished is None
    assert found.rows[0].outcome == "missing"
    assert found.ideal == ()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""), (3, "3"), (0.1 + 0.2, "0.3"), (-1e-9, "0"), (1200.0, "1200"),
        (float("nan"), "nan"), (2.0000004, "2"), (1 / 3, "0.333333"),
    ],
)  # fmt: skip
def test_figures_are_printed_alike_everywhere(value, shown):
    assert number(value) == shown


def test_the_same_run_makes_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        with start(tmp_path / name) as results:
            results.add(run_of(PLANNED[0]))
    one, two = contents(tmp_path / "one"), contents(tmp_path / "two")
    assert {name for name in one if one[name] != two[name]} <= {"manifest.json"}


def test_a_resumed_run_knows_its_cells_and_its_notes(tmp_path):
    """Seen to fail with ``has`` that looks at the cells of its own session only."""
    with start(tmp_path / "run") as results:
        assert not results.has(PLANNED[0])
        results.add(run_of(PLANNED[0]))
        results.note("prefetch", {"redis": 4})
    with start(tmp_path / "run") as results:
        assert [results.has(cell) for cell in PLANNED] == [True, False, False, False]
        assert results.notes == {"prefetch": {"redis": 4}}
        results.add(run_of(PLANNED[1]))
        assert [each.cell for each in results.summaries()] == PLANNED[:2]
    manifest = json.loads((tmp_path / "run/manifest.json").read_text())
    assert [session["cells"] for session in manifest["sessions"]] == [1, 1]
    assert manifest["sessions"][0]["environment"]["servers"] == ["redis 7.0.15"]
    assert manifest["seeds"] == {"0": 7, "1": 8}


def test_tables_have_a_line_for_each_cell_tenant_and_level(tmp_path):
    with start(tmp_path / "run") as results:
        results.add(run_of(PLANNED[0]))
        results.add(run_of(PLANNED[1], ending="truncated", reason="interrupted"))
    lines = list(csv.DictReader((tmp_path / "run/aggregate.csv").read_text().splitlines()))
    assert [line["ending"] for line in lines] == ["complete", "truncated"]
    assert float(lines[0]["latency_p95"]) > float(lines[0]["ideal_latency_p95"]) > 0
    tenants = list(csv.DictReader((tmp_path / "run/tenants.csv").read_text().splitlines()))
    assert {line["tenant"] for line in tenants} >= {"big", "small-1"}
    levels = list(csv.DictReader((tmp_path / "run/priorities.csv").read_text().splitlines()))
    assert {line["priority"] for line in levels} >= {"0", "1", "2"}


def test_what_was_cut_short_is_run_again_and_what_timed_out_is_not(tmp_path):
    endings = ("complete", "timed-out", "truncated", "failed")
    with start(tmp_path / "run") as results:
        for cell, ending in zip(PLANNED, endings, strict=True):
            results.add(run_of(cell, ending=ending))
        assert [results.has(cell) for cell in PLANNED] == [True, True, False, False]
        results.add(run_of(PLANNED[3]))
        assert results.has(PLANNED[3])
        with pytest.raises(ValueError, match="already there"):
            results.add(run_of(PLANNED[3]))


def test_a_cell_that_was_not_planned_is_a_mistake(tmp_path):
    with start(tmp_path / "run") as results:
        with pytest.raises(ValueError, match="not a cell of this run"):
            results.add(run_of(cells(arms=("tq-edf",))[0]))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"experiment": "sweep"}, "experiment 'matrix' against 'sweep'"),
        ({"profile": dataclasses.replace(PROFILE, window=9.0)}, "profile.window 1.0 against 9.0"),
        ({"settings": {"policy": "wfq"}}, 'settings.policy (not set) against "wfq"'),
        ({"cells": PLANNED[:3]}, "cells: 4 planned against 3"),
        ({"cells": cells(arms=("tq-fifo", "tq-edf"))}, "cells[1] multi_tenant-tq-wfq"),
    ],
)
def test_another_configuration_is_refused_by_the_field(tmp_path, changes, field):
    """Seen to fail without the call of ``difference``."""
    with start(tmp_path / "run") as results:
        results.add(run_of(PLANNED[0]))
    before = contents(tmp_path / "run")
    with pytest.raises(BenchError) as error:
        start(tmp_path / "run", **changes)
    assert field in error.value.message
    assert "\n" not in error.value.message
    assert contents(tmp_path / "run") == before


def test_a_run_that_had_no_such_field_yet_goes_on_with_the_default(tmp_path):
    """Seen to fail: every new field of a profile would strand the runs begun before it."""
    with start(tmp_path / "run") as results:
        results.add(run_of(PLANNED[0]))
    path = tmp_path / "run/manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["profile"]["deadline"]
    path.write_text(json.dumps(manifest))
    with start(tmp_path / "run") as results:
        assert results.has(PLANNED[0])
    with pytest.raises(BenchError, match="profile.deadline"):
        start(tmp_path / "run", profile=dataclasses.replace(PROFILE, deadline=(2.0, 10.0, 0.2)))


def test_another_version_is_refused_untouched(tmp_path):
    with start(tmp_path / "run"):
        pass
    path = tmp_path / "run/manifest.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    before = contents(tmp_path / "run")
    for attempt in (start, Results.read):
        with pytest.raises(BenchError, match="results of version 2; .* version 1"):
            attempt(tmp_path / "run")
    assert contents(tmp_path / "run") == before


@pytest.mark.parametrize("manifest", [None, "", "[]", "{}", '{"kind": "of another program"}'])
def test_a_foreign_folder_is_refused_untouched(tmp_path, manifest):
    (tmp_path / "holiday.txt").write_text("photos")
    if manifest is not None:
        (tmp_path / "manifest.json").write_text(manifest)
    before = contents(tmp_path)
    with pytest.raises(BenchError, match="choose another"):
        start(tmp_path)
    assert contents(tmp_path) == before


def test_a_file_is_not_a_folder(tmp_path):
    (tmp_path / "run").write_text("text")
    with pytest.raises(BenchError, match="is a file"):
        start(tmp_path / "run")


def test_where_no_folder_can_be_made_it_is_one_line(tmp_path):
    (tmp_path / "file").write_text("text")
    with pytest.raises(BenchError, match="file/run cannot be written to: Not a directory"):
        start(tmp_path / "file" / "run")


def test_a_folder_in_use_is_refused(tmp_path):
    with start(tmp_path / "run"):
        with pytest.raises(BenchError, match="in use"):
            start(tmp_path / "run")
    with start(tmp_path / "run"):
        pass


@pytest.mark.parametrize("change", ["rows", "record"])
def test_a_cell_whose_rows_are_not_its_own_does_not_count(tmp_path, capsys, change):
    """Seen to fail without comparing the digest."""
    with start(tmp_path / "run") as results:
        results.add(run_of(PLANNED[0]))
    raw = tmp_path / "run/raw" / PLANNED[0].name
    if change == "rows":
        text = raw.with_name(raw.name + ".csv").read_text()
        raw.with_name(raw.name + ".csv").write_text(text[: len(text) // 2])
    else:
        raw.with_name(raw.name + ".csv").unlink()
    with start(tmp_path / "run") as results:
        assert not results.has(PLANNED[0])
        assert results.summaries() == []
    assert "not written whole" in capsys.readouterr().err


def test_a_damaged_record_is_one_line(tmp_path):
    with start(tmp_path / "run") as results:
        results.add(run_of(PLANNED[0]))
    (tmp_path / "run/raw" / f"{PLANNED[0].name}.json").write_text("[1]")
    with pytest.raises(BenchError, match="is not the record of a cell"):
        Results.read(tmp_path / "run")


@pytest.mark.parametrize(
    ("number", "moment"),
    # Files of the second cell: 1 rows, 2 dead letters, 3 its record, 4 the table of cells.
    [(1, "half"), (1, "named"), (2, "unnamed"), (3, "half"), (3, "unnamed"), (3, "named"),
     (4, "half")],
)  # fmt: skip
def test_killed_while_it_writes(tmp_path, number, moment):
    """Finished cells survive, half ones do not count, and the run goes on.

    Seen to fail with files that are written in place, at the halves of 3 and 4.
    """
    folder = tmp_path / "run"
    script = ROOT / "tests/unit/bench/killed_writer.py"
    ended = subprocess.run(
        [sys.executable, script, folder, str(number), moment],
        env=python_env({}), capture_output=True, check=False,
    )  # fmt: skip
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    whole = number > 3 or (number, moment) == (3, "named")
    table = (folder / "aggregate.csv").read_text()
    assert table.endswith("\n")
    assert [line["arm"] for line in csv.DictReader(table.splitlines())] == ["tq-fifo"]
    with start(folder) as results:
        assert [results.has(cell) for cell in PLANNED[:2]] == [True, whole]
        assert len(results.summaries()) == 1 + whole
        assert not list(folder.rglob("*.partial"))
        if not whole:
            results.add(run_of(PLANNED[1]))
        assert results.has(PLANNED[1])
