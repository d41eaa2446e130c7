"""The loop over cells: order, resuming, failures, and the time left."""

from __future__ import annotations

import io
from typing import cast

import pytest

from bench.harness.bar import Bar, in_words
from bench.harness.cell import Cell, Profile
from bench.harness.cells import grid, run_cells
from bench.harness.errors import BenchError
from bench.harness.lab import Lab
from bench.harness.record import Ending, Run
from bench.harness.results import Results

PROFILE = Profile("smoke", window=1.0, slots=2, repetitions=2)


def cells(arms=("tq-fifo", "tq-wfq")) -> list[Cell]:
    return grid(arms, ["uniform"], PROFILE)


def test_arms_of_a_workload_are_neighbours_and_their_order_turns_round():
    names = [(cell.arm, cell.workload, cell.repetition) for cell in
             grid(["a", "b"], ["x", "y"], PROFILE)]  # fmt: skip
    assert names == [
        ("a", "x", 0), ("b", "x", 0), ("a", "y", 0), ("b", "y", 0),
        ("b", "x", 1), ("a", "x", 1), ("b", "y", 1), ("a", "y", 1),
    ]  # fmt: skip


def test_what_is_named_twice_is_run_once():
    """Seen to fail: the second of two equal cells was an error once the first was kept."""
    assert grid(["a", "b", "a"], ["x", "x"], PROFILE, loads=(1.0, 1.0)) == grid(
        ["a", "b"], ["x"], PROFILE, loads=(1.0,)
    )


class Runner:
    """Stands for the driver: every cell ends as it is told."""

    def __init__(self, *endings: str) -> None:
        self.endings = list(endings)
        self.ran: list[str] = []

    def __call__(self, cell, profile, lab, watch):
        ending = self.endings.pop(0)
        if ending == "interrupt":
            raise KeyboardInterrupt
        self.ran.append(cell.name)
        watch("run", 1, 2)
        return Run(
            cell,
            1,
            2,
            (),
            (),
            cast("Ending", ending),
            reason="because" if ending == "failed" else "",
        )


def run(path, runner) -> None:
    with Results.open(path, "matrix", PROFILE, cells(), {}) as results:
        run_cells(cells(), PROFILE, results, Lab(), runner)


def test_an_interrupted_run_goes_on_where_it_was(tmp_path, capsys):
    """Seen to fail when the loop did not ask what is there: the first cell ran twice."""
    first, second = Runner("complete", "interrupt"), Runner("complete", "complete", "complete")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "out", first)
    assert "finished cells are kept in" in capsys.readouterr().err
    run(tmp_path / "out", second)
    assert first.ran + second.ran == [cell.name for cell in cells()]


def test_one_failed_cell_does_not_end_the_run_and_is_tried_again(tmp_path):
    run(tmp_path / "out", Runner("complete", "failed", "complete", "timed-out"))
    again = Runner("complete")
    run(tmp_path / "out", again)
    assert again.ran == [cells()[1].name]


def test_three_failures_in_a_row_end_it(tmp_path):
    with pytest.raises(BenchError, match="3 cells in a row failed, lastly: because"):
        run(tmp_path / "out", Runner("failed", "failed", "failed", "complete"))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def finished(cell: Cell, elapsed: float) -> Run:
    return Run(cell, 1, 2, (), (), "complete", elapsed=elapsed)


def test_the_time_left_follows_what_the_cells_really_took():
    clock, stream = Clock(), io.StringIO()
    bar = Bar(cells(), lambda cell: 10.0, stream, clock)
    bar.begin()
    assert bar.left() == 40.0
    clock.now = 15.0
    bar.end(finished(cells()[0], 15.0))
    assert bar.left() == 45.0  # three cells left, each half as long again as was expected
    clock.now = 20.0
    assert bar.left() == 40.0
    assert "1/4 uniform-tq-fifo-x1.25-sleep-r0: complete in 15 s; 45 s left" in stream.getvalue()
    assert "#" not in stream.getvalue()


def test_on_a_terminal_the_line_is_rewritten_at_most_twice_a_second():
    clock, stream = Clock(), Terminal()
    bar = Bar(cells(), lambda cell: 10.0, stream, clock)
    bar.begin()
    for tenth in range(20):
        clock.now = 1.0 + tenth / 10
        bar.watch("run", tenth, 20)
    drawn = stream.getvalue().split("\r\x1b[K")[1:]
    assert len(drawn) == 4
    assert drawn[-1].startswith("[####....................] 1/4 uniform-tq-fifo")
    assert drawn[-1].endswith("left")


@pytest.mark.parametrize(
    "seconds, words", [(4.4, "4 s"), (89, "89 s"), (600, "10 min"), (3_960, "66 min"),
                       (7_500, "2 h 05 min")],
)  # fmt: skip
def test_durations_read_as_a_person_says_them(seconds, words):
    assert in_words(seconds) == words
