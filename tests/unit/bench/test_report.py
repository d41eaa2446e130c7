"""What a command prints."""

from __future__ import annotations

import json

import pytest

from bench.harness.report import emit, table


def test_table_aligns_names_left_and_figures_right() -> None:
    text = table(["arm", "tasks/s"], [["stock", 1750.4], ["ours", 12_600]])
    assert text.splitlines() == [
        "arm    tasks/s",
        "-----  -------",
        "stock    1,750",
        "ours    12,600",
    ]


def test_json_is_the_last_line_and_can_be_saved(capsys, tmp_path) -> None:
    saved = tmp_path / "deep" / "run.json"
    emit("a table\nof two lines", {"b": 1, "a": [2.5]}, as_json=True, save=saved)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:-1] == ["a table", "of two lines"]
    assert json.loads(lines[-1]) == json.loads(saved.read_text()) == {"b": 1, "a": [2.5]}


def test_without_json_only_the_text_is_printed(capsys) -> None:
    emit("words", {"a": 1}, as_json=False)
    assert capsys.readouterr().out == "words\n"


def test_a_figure_that_is_not_a_number_is_never_reported() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        emit("words", {"ratio": float("nan")}, as_json=True)
