"""The demo without running it: its work, its words, its screen and its chart."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from tq_celery.cli import main
from tq_celery.demo.chart import draw
from tq_celery.demo.screen import Screen, comparison
from tq_celery.demo.story import tell
from tq_celery.demo.workload import FLOOD, QUIET, SLOTS, make_work
from tq_celery.replay.engine import Run
from tq_celery.replay.feed import Event
from tq_celery.replay.pacing import Submitted


def run(wait_of_quiet: float, wait_of_flood: float) -> Run:
    works = make_work(1)
    made = Run("any", len(works), began=1000.0)
    for work in works:
        wait = wait_of_flood if work.tenant == FLOOD else wait_of_quiet
        at = 1000.0 + work.at
        made.submit([Submitted(work, at, 0.0)])
        made.apply(Event("S", work.job, at + wait))
        made.apply(Event("F", work.job, at + wait + work.seconds))
    return made


def test_the_same_seed_gives_the_same_work_in_order() -> None:
    works = make_work(7)
    assert works == make_work(7)
    assert works != make_work(8)
    assert [work.at for work in works] == sorted(work.at for work in works)
    counts = Counter(work.tenant for work in works)
    assert counts[FLOOD] > 10 * max(counts[tenant] for tenant in QUIET)


def test_both_arms_fit_into_a_minute() -> None:
    for seed in range(20):
        assert sum(work.seconds for work in make_work(seed)) / SLOTS < 13.0


def test_the_sentence_says_what_was_gained_and_paid() -> None:
    story = tell(run(5.0, 6.0), run(0.05, 6.5))
    assert story.sentence == (
        "acme and initech wait 50 ms instead of 5.0 s (p95), 100 times less; globex, whose flood "
        "it is, waits 6.5 s instead of 6.0 s and is done 0.5 s later."
    )


def test_the_sentence_is_honest_when_nothing_was_gained() -> None:
    story = tell(run(5.0, 6.0), run(5.0, 6.0))
    assert "about as long" in story.sentence
    assert story.sentence.endswith("is done no later.")


def test_the_chart_is_a_png_of_a_useful_size(tmp_path: Path) -> None:
    stock, fair = run(5.0, 6.0), run(0.05, 6.5)
    path = tmp_path / "chart.png"
    draw(stock, fair, tell(stock, fair), path)
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG")
    width, height = (int.from_bytes(data[i : i + 4]) for i in (16, 20))
    assert (width, height) == (1320, 672)


@pytest.mark.parametrize("terminal", [True, False])
def test_the_screen_shows_every_tenant(*, terminal: bool) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100)
    finished = run(5.0, 6.0)
    totals = Counter(work.tenant for work in make_work(1))
    with Screen(console, "1. stock Celery", totals) as screen:
        screen(finished)
    console.print(comparison(tell(finished, run(0.05, 6.5))))
    text = out.getvalue()
    for tenant in (*QUIET, FLOOD):
        assert tenant in text
    assert f"{totals[FLOOD]}/{totals[FLOOD]}" in text
    assert ("\x1b[" in text) is terminal


def test_a_chart_that_cannot_be_written_is_said_before_the_runs() -> None:
    result = CliRunner().invoke(main, ["demo", "--output", "/nonexistent/a.png"], env={})
    assert result.exit_code == 2
    assert "--output /nonexistent/a.png: cannot be written" in result.stderr
