"""``report.html``: verdicts and cautions first, then plots, tables, and how it was measured."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from bench.harness.page.cautions import cautions
from bench.harness.page.figures import by_group, costs, figures
from bench.harness.page.html import Markup, details, figure, items, section, table, text
from bench.harness.plots import Plot
from bench.harness.plots.style import short
from bench.harness.plots.view import Place, View
from bench.harness.results.manifest import Manifest
from bench.harness.summary import CellSummary
from bench.harness.verdicts.verdict import Verdict

__all__ = ["page"]

#: Dead letters of one cell that are shown; all are in ``dead_letters/``.
SHOWN = 5

Letters = Mapping[str, Sequence[Mapping[str, Any]]]


def page(
    manifest: Manifest,
    summaries: Sequence[CellSummary],
    verdicts: Sequence[Verdict],
    plots: Sequence[Plot],
    letters: Letters,
) -> str:
    """Return the page. The same run gives the same bytes."""
    view = View(summaries)
    title = f"{manifest.experiment}, {manifest.profile['name']} profile"
    body = [
        Markup(f"<h1>{text(title)}</h1>"),
        _lead(manifest, summaries),
        section("Cautions", items(cautions(manifest, summaries), "cautions")),
        section("Verdicts", _verdicts(verdicts)),
        section("Plots", *(figure(plot.caption, plot.svg) for plot in plots)),
        section("Figures", *_figures(view)),
        section("Cells", *_cells(summaries)),
        section("Dead letters", *_letters(letters)),
        section("How it was measured", *_manifest(manifest)),
    ]
    style = files(__package__).joinpath("page.css").read_text()
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in body if part)
        + "\n</main>\n</body>\n</html>\n"
    )


def _lead(manifest: Manifest, summaries: Sequence[CellSummary]) -> Markup:
    counting = sum(summary.counts for summary in summaries)
    tasks = sum(summary.real.completed for summary in summaries)
    began = manifest.sessions[0]["started"] if manifest.sessions else "-"
    return Markup(
        f'<p class="lead">{counting} of {len(manifest.cells)} cells complete, {tasks:,} tasks, '
        f"{text(manifest.profile['slots'])} slots, arrivals of "
        f"{text(manifest.profile['window'])} s. Started {text(began)}.</p>"
    )


def _verdicts(verdicts: Sequence[Verdict]) -> Markup:
    return table(
        ["", "rule", "measured", "least..greatest", "n", "ideal", "bound", "why"],
        (
            [
                _outcome(each),
                each.name,
                _shown(each.measured),
                "–" if each.least is None else f"{_shown(each.least)}..{_shown(each.greatest)}",
                each.repetitions,
                _shown(each.ideal),
                each.bound or "–",
                each.why,
            ]
            for each in verdicts
        ),
        "verdicts",
    )


def _outcome(verdict: Verdict) -> Markup:
    if verdict.outcome == "not judged" and not verdict.bound and verdict.measured is not None:
        return Markup('<span class="not-judged">published</span>')
    return Markup(
        f'<span class="{verdict.outcome.replace(" ", "-")}">{text(verdict.outcome)}</span>'
    )


def _figures(view: View) -> Iterator[Markup]:
    if view.places:
        yield Markup(
            "<p>Medians over the complete repetitions (n), below them the least and the greatest "
            "and what the ideal server makes of the same arrivals.</p>"
        )
    for place in view.places:
        yield Markup(f"<h3>{text(_place(place))}</h3>")
        yield from figures(view, place)
        yield details(
            "p95 latency by tenant, seconds", by_group(view, place, lambda cell: cell.tenants)
        )
        yield details(
            "p95 latency by priority level, seconds",
            by_group(view, place, lambda cell: cell.priorities),
        )
        yield details("Cost per completed task, microseconds", costs(view, place))


def _place(place: Place) -> str:
    return f"{place.workload}, {place.exec}, {place.load:g} x load"


def _cells(summaries: Sequence[CellSummary]) -> Iterator[Markup]:
    void = [summary for summary in summaries if not summary.counts]
    if void:
        yield Markup("<p>In no average:</p>")
        yield table(
            ["cell", "ending", "why", "completed", "dead", "missing"],
            (
                [each.cell.name, each.ending, each.reason, each.real.completed, each.real.dead,
                 each.real.missing]
                for each in void
            ),
        )  # fmt: skip
    yield details(
        f"All {len(summaries)} cells",
        table(
            ["cell", "seed", "ending", "tasks", "completed", "dead", "missing", "repeats",
             "seconds", "late p99, ms"],
            (
                [each.cell.name, each.seed, each.ending, each.real.tasks, each.real.completed,
                 each.real.dead, each.real.missing, each.real.repeats, _shown(each.elapsed),
                 _shown(None if each.lag_p99 is None else each.lag_p99 * 1000)]
                for each in summaries
            ),
        ),
    )  # fmt: skip


def _letters(letters: Letters) -> Iterator[Markup]:
    for name, buried in letters.items():
        shown = [json.dumps(letter, sort_keys=True) for letter in buried[:SHOWN]]
        yield details(f"{name}: {len(buried)}", items(shown, "code"))
    if not letters:
        yield Markup("<p>None.</p>")


def _manifest(manifest: Manifest) -> Iterator[Markup]:
    yield table(
        ["setting", "value"], [*_pairs(manifest.profile), *_pairs(manifest.settings)], "pairs"
    )
    yield details("Seeds of the repetitions", table(["repetition", "seed"], manifest.seeds.items()))
    yield details("Found during the run", table(["what", "value"], _pairs(manifest.notes), "pairs"))
    for number, session in enumerate(manifest.sessions, 1):
        origin = f", from {session['from']}" if "from" in session else ""
        yield details(
            f"Session {number}, started {session['started']}{origin}",
            table(["what", "value"], _pairs(session.get("environment", {})), "pairs"),
        )


def _pairs(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        shown = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        yield name.replace("_", " "), "–" if value is None else shown


def _shown(value: float | None) -> str:
    return "–" if value is None else short(value)
