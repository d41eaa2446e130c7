"""What the plots show: looked up in the figure that is drawn, no file in between."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from matplotlib.figure import Figure

from bench.harness.cell import Cell, backlog_name, duration
from bench.harness.plots import PLOTS, crossover, jain, latency, longest, rivals, sweep, tenants
from bench.harness.plots.style import short
from bench.harness.plots.view import Place, View
from bench.harness.summary import summarise
from tests.unit.bench.lab_runs import cells, run_of


@pytest.fixture(scope="module")
def matrix():
    return [summarise(run_of(cell)) for cell in cells()]


@pytest.fixture(scope="module")
def swept():
    planned = cells(workloads=("uniform",), loads=(0.5, 1.0, 2.0))
    return [summarise(run_of(cell)) for cell in planned]


def words(figure) -> str:
    axes = [
        text
        for panel in figure.axes
        for text in (
            panel.title, panel.xaxis.label, panel.yaxis.label, *panel.texts,
            *panel.get_yticklabels(), panel.get_title(loc="left"),
        )
    ]  # fmt: skip
    found = [*figure.texts, *(label for legend in figure.legends for label in legend.texts), *axes]
    return "\n".join(each if isinstance(each, str) else each.get_text() for each in found)


def drawn(figure: Figure | None) -> Figure:
    assert figure is not None
    return figure


def with_figure(summary, **changes):
    return dataclasses.replace(summary, real=dataclasses.replace(summary.real, **changes))


def test_one_repetition_is_said_in_the_plot(matrix):
    """Seen to fail without the warning on the sheet."""
    once = latency.draw(View(matrix[:2]))
    assert "One repetition only" in words(once)
    twice = latency.draw(View(matrix))
    assert "Medians of 2 repetitions" in words(twice)
    partly = latency.draw(View(matrix[:3]))
    assert "1 to 2 repetitions" in words(partly)


def test_cells_that_did_not_end_well_are_not_there(matrix):
    """Seen to fail with a view that takes every cell."""
    void = dataclasses.replace(matrix[2], ending="timed-out")
    view = View([*matrix[:2], void, matrix[3]])
    place = Place.of(void.cell)
    assert len(view.at(place, "tq-fifo")) == 1
    assert latency.draw(View([void])) is None


def test_whiskers_go_from_the_least_to_the_greatest(matrix):
    view = View([with_figure(each, wait_max=float(3 + number)) for number, each in
                 enumerate(matrix)])  # fmt: skip
    place = view.places[0]
    assert view.spread(place, "tq-fifo", lambda cell: cell.real.wait_max) == (4.0, 3.0, 5.0)
    assert longest.draw(view) is not None


def test_an_axis_is_logarithmic_where_values_span_decades(matrix):
    one = [with_figure(each, wait_max=1.0) for each in matrix]
    narrow = drawn(longest.draw(View(one)))
    wide = drawn(longest.draw(View([with_figure(one[0], wait_max=1000.0), *one[1:]])))
    assert [figure.axes[0].get_xscale() for figure in (narrow, wide)] == ["linear", "log"]
    assert wide.axes[0].get_xlabel() == "seconds (log)"


def test_the_least_index_has_a_line(matrix):
    view = View(matrix)
    figure = drawn(jain.draw(view))
    tenants_there = len(matrix[0].tenants)
    assert jain.floor(view.places[0], view) == 1 / tenants_there
    dashed = [line for line in figure.axes[0].lines if line.get_linestyle() == "--"]
    assert [np.asarray(line.get_xdata())[0] for line in dashed] == [1 / tenants_there]
    assert "1/n" in words(figure)


def test_the_largest_tenant_comes_first(matrix):
    figure = drawn(tenants.draw(View(matrix)))
    names = [label.get_text() for label in figure.legends[0].texts]
    assert names[0] == "big"
    assert names[1:-1] == sorted(names[1:-1])


def test_no_plot_of_tenants_where_all_are_alike(swept):
    assert tenants.draw(View(swept)) is None


def test_a_workload_at_several_loads_has_curves_and_nothing_else(swept):
    view = View(swept)
    shown = [name for name, module in PLOTS.items() if module.draw(view) is not None]
    assert shown == ["sweep"]
    places = [place for place in view.places if place.load == 2.0]
    spread = sweep.policy_spread(view, places[0])
    assert spread is not None
    assert 0 <= spread.min <= spread.median <= spread.max


def test_the_spread_of_policies_is_formed_within_a_repetition(swept):
    by = {("tq-fifo", 0): 1.0, ("tq-wfq", 0): 1.5, ("tq-fifo", 1): 4.0, ("tq-wfq", 1): 4.4}
    changed = [
        with_figure(each, latency_p99=by[each.cell.arm, each.cell.repetition]) for each in swept
    ]
    view = View(changed)
    spread = sweep.policy_spread(view, view.places[0])
    assert spread is not None
    assert (round(spread.min), round(spread.max)) == (10, 50)


def test_rivals_are_compared_within_a_repetition(matrix):
    def cell(arm, repetition, rate):
        like = matrix[repetition * 2]
        moved = dataclasses.replace(like, cell=dataclasses.replace(like.cell, arm=arm))
        return with_figure(moved, throughput=rate)

    view = View([cell("tq-fifo", 0, 300.0), cell("redis", 0, 100.0),
                 cell("tq-fifo", 1, 100.0), cell("redis", 1, 50.0)])  # fmt: skip
    rate = lambda each: each.real.throughput  # noqa: E731
    assert view.ratio(view.places[0], rate, "tq-fifo", "redis") == (2.5, 2.0, 3.0)
    lonely = View([cell("tq-fifo", 0, 300.0), cell("redis", 1, 50.0)])
    assert lonely.ratio(lonely.places[0], rate, "tq-fifo", "redis") is None
    ours = View([cell("tq-wfq", 0, 300.0), cell("redis", 0, 100.0)])
    assert "stock redis" in words(rivals.draw(ours))


def test_durations_are_drawn_in_order(matrix):
    def cell(arm, milliseconds):
        place = Cell(arm, f"fixed-{milliseconds}ms", 1.0, "sleep", 0)
        return dataclasses.replace(matrix[0], cell=place)

    view = View([cell(arm, each) for each in (10, 0, 2) for arm in ("tq-fifo", "redis")])
    figure = crossover.draw(view)
    assert figure is not None
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["0", "2", "10"]
    assert latency.draw(view) is None


@pytest.mark.parametrize(
    ("name", "milliseconds"),
    [("fixed-0ms", 0.0), ("fixed-20ms", 20.0), ("fixed", None), ("fixed-xms", None),
     ("uniform", None)],
)  # fmt: skip
def test_a_duration_is_read_from_the_name(name, milliseconds):
    assert duration(name) == milliseconds
    assert milliseconds is None or backlog_name(milliseconds) == name


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0"), (1.0, "1"), (0.04567, "0.0457"), (12.34, "12.3"), (999.6, "1,000"),
     (1234.5, "1,234"), (100.0, "100"), (0.00001, "1e-05")],
)  # fmt: skip
def test_figures_have_three_digits(value, shown):
    assert short(value) == shown
