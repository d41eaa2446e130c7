"""``report.html``: verdicts and cautions first, then plots, tables, and how it was measured."""

from __future__ import annotations

import json
from collections import Counter
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

#: What a verdict says when there is nothing to add to its figure.
UNBOUND = "published, without a bound"
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
        section("Verdicts", *_verdicts(verdicts)),
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
    long = manifest.profile.get("long_window")
    tails = f" ({long:g} s where run times are heavy-tailed)" if long is not None else ""
    return Markup(
        f'<p class="lead">{counting} of {len(manifest.cells)} cells complete, {tasks:,} tasks, '
        f"{text(manifest.profile['slots'])} slots, arrivals of "
        f"{manifest.profile['window']:g} s{tails}. Started {text(began)}.</p>"
    )


def _verdicts(verdicts: Sequence[Verdict]) -> Iterator[Markup]:
    judged = [verdict for verdict in verdicts if verdict.bound]
    published = [each for each in verdicts if not each.bound and each.measured is not None]
    absent = [each for each in verdicts if not each.bound and each.measured is None]
    counts = Counter(verdict.outcome for verdict in judged)
    if judged:
        words = ", ".join(f"{number} {outcome}" for outcome, number in sorted(counts.items()))
        yield Markup(f"<p>{text(words)}.</p>")
        yield table(
            ["", *_COLUMNS[:-1], "bound", "why"],
            (
                [_tag(each), *_measured(each), each.bound, each.why]
                for each in sorted(judged, key=lambda each: each.outcome)
            ),
            "verdicts",
        )
    if published:
        yield Markup("<p>Published without a bound:</p>")
        yield table(
            _COLUMNS, ([*_measured(each), _remark(each)] for each in published),
            "verdicts published",
        )  # fmt: skip
    yield details(
        f"{len(absent)} figures that these cells do not have",
        items(f"{each.name}: {each.why}" for each in absent),
    )


_COLUMNS = ("rule", "measured", "least..greatest", "n", "ideal", "remark")


def _remark(verdict: Verdict) -> str:
    # Said above the table already.
    return "" if verdict.why == UNBOUND else verdict.why


def _tag(verdict: Verdict) -> Markup:
    kind = verdict.outcome.replace(" ", "-")
    return Markup(f'<span class="{kind}">{text(verdict.outcome)}</span>')


def _measured(verdict: Verdict) -> list[object]:
    between = "–"
    if verdict.least is not None and verdict.least != verdict.greatest:
        between = f"{_shown(verdict.least)}..{_shown(verdict.greatest)}"
    return [verdict.name, _shown(verdict.measured), between, verdict.repetitions,
            _shown(verdict.ideal)]  # fmt: skip


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
