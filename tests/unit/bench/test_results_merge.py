"""Runs of one configuration as one, and the differences that forbid it."""

from __future__ import annotations

import dataclasses
import json

import pytest

from bench.harness.errors import BenchError
from bench.harness.results import Results, merge
from tests.unit.bench.lab_runs import ENVIRONMENT, PROFILE, cells, run_of

FIFO, WFQ = cells(arms=("tq-fifo",)), cells(arms=("tq-wfq",))


def made(folder, planned, profile=PROFILE, note=None, settings=None, environment=ENVIRONMENT):
    with Results.open(folder, "matrix", profile, planned, environment, settings) as results:
        if note is not None:
            results.note("prefetch", note)
        for cell in planned:
            results.add(run_of(cell, dead_letters=({"id": cell.name},)))
    return folder


def test_cells_of_all_runs_with_their_provenance(tmp_path):
    """Seen to fail with session numbers that are not shifted."""
    monday = made(tmp_path / "monday", FIFO, note={"redis": 4})
    tuesday = made(tmp_path / "tuesday", WFQ, environment={**ENVIRONMENT, "commit": "def"})
    merge(tmp_path / "both", [monday, tuesday])
    with Results.read(tmp_path / "both") as results:
        assert [each.cell for each in results.summaries()] == [*FIFO, *WFQ]
        assert results.notes == {"prefetch": {"redis": 4}}
        sessions = results.manifest.sessions
        assert [each["from"] for each in sessions] == ["monday", "tuesday"]
        assert [each["environment"]["commit"] for each in sessions] == ["abc", "def"]
        runs = {run.cell.name: run for run in results.runs()}
    for cell, session in ((FIFO[0], 0), (WFQ[1], 1)):
        record = json.loads((tmp_path / "both/raw" / f"{cell.name}.json").read_text())
        assert record["session"] == session
        assert runs[cell.name].dead_letters == ({"id": cell.name},)
        for file in (f"raw/{cell.name}.csv", f"dead_letters/{cell.name}.json"):
            source = monday if session == 0 else tuesday
            assert (tmp_path / "both" / file).read_bytes() == (source / file).read_bytes()


def test_a_merged_run_can_be_merged_again(tmp_path):
    merge(tmp_path / "b", [made(tmp_path / "1", FIFO), made(tmp_path / "2", WFQ)])
    merge(tmp_path / "c", [tmp_path / "b", made(tmp_path / "3", cells(arms=("tq-edf",)))])
    with Results.read(tmp_path / "c") as results:
        assert len(results.summaries()) == 6
        assert [each["from"] for each in results.manifest.sessions] == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"planned": FIFO}, "is in both"),
        (
            {"planned": WFQ, "profile": dataclasses.replace(PROFILE, slots=3)},
            "profile.slots 2 against 3",
        ),
        ({"planned": WFQ, "settings": {"a": 1}}, "settings.a"),
        ({"planned": WFQ, "note": {"redis": 64}}, "notes.prefetch"),
    ],
)
def test_what_does_not_belong_together_is_refused(tmp_path, other, message):
    first = made(tmp_path / "first", FIFO, note={"redis": 4})
    second = made(tmp_path / "second", **other)
    with pytest.raises(BenchError, match=message) as error:
        merge(tmp_path / "out", [first, second])
    assert "\n" not in error.value.message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "second"]


def test_nothing_is_overwritten(tmp_path):
    sources = [made(tmp_path / "1", FIFO), made(tmp_path / "2", WFQ)]
    (tmp_path / "out").mkdir()
    with pytest.raises(BenchError, match="exists"):
        merge(tmp_path / "out", sources)
    with pytest.raises(BenchError, match="two runs or more"):
        merge(tmp_path / "new", sources[:1])
    with pytest.raises(BenchError, match="not a folder of results"):
        merge(tmp_path / "new", [sources[0], tmp_path / "out"])


def test_a_half_cell_is_not_taken_along(tmp_path):
    sources = [made(tmp_path / "1", FIFO), made(tmp_path / "2", WFQ)]
    (tmp_path / "2/raw" / f"{WFQ[0].name}.csv").write_text("job\n")
    with pytest.raises(BenchError, match="is not whole"):
        merge(tmp_path / "out", sources)
    assert not list(tmp_path.glob("out*"))
