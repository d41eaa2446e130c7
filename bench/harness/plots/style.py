"""How every plot looks: the colour of an arm, the sheet, the warning, the files."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from bench.harness.measure import Spread
from bench.harness.plots.view import View

__all__ = [
    "BLACK", "COLOURS", "FAINT", "GREY", "MARKERS", "RC", "arm_label", "colour", "error",
    "scale_axis", "sheet", "short", "to_png", "to_svg",
]  # fmt: skip

BLACK, GREY, FAINT, RED = "#222222", "#8A8A8A", "#E3E3E3", "#B00020"
#: Told apart with every common kind of colour blindness (Okabe and Ito; Tol for the rivals).
COLOURS = {
    "tq-none": "#999999",
    "tq-fifo": "#0072B2",
    "tq-priority": "#E69F00",
    "tq-edf": "#009E73",
    "tq-wfq": "#D55E00",
    "redis": "#000000",
    "redis-priority": "#56B4E9",
    "rabbitmq": "#CC79A7",
    "rabbitmq-priority": "#882255",
    "tenant-queues": "#44AA99",
    "dynamic-priority": "#999933",
    "redis-plus": "#332288",
}
#: The greatest value over the least from which on an axis is logarithmic.
DECADES = 8.0
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
#: The same bytes for the same figures: no date, no random ids.
RC: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.axisbelow": True,
    "svg.hashsalt": "tq",
    "legend.frameon": False,
}


def colour(arm: str) -> str:
    """Return the colour of an arm, the same in every plot."""
    return COLOURS.get(arm, GREY)


def arm_label(arm: str) -> str:
    """Return an arm's name as it is shown: a rival says that it is stock."""
    return arm if arm.startswith("tq-") else f"stock {arm}"


def error(value: Spread) -> tuple[float, float]:
    """Return how far least and greatest are from the median."""
    return value.median - value.min, value.max - value.median


def short(value: float) -> str:
    """Return a figure with three significant digits at most."""
    if abs(value) >= 999.5:
        return f"{value:,.0f}"
    text = f"{value:.3g}"
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def scale_axis(axis: Axis, values: Sequence[float], unit: str) -> None:
    """Scale an axis of positive values: from zero, or by logarithm where they span decades."""
    low, high = min(values), max(values)
    axes = axis.axes
    horizontal = axis is axes.xaxis
    limit = axes.set_xlim if horizontal else axes.set_ylim
    if high / low < DECADES:
        limit(0, high * 1.14)
        axis.set_label_text(unit)
        return
    (axes.set_xscale if horizontal else axes.set_yscale)("log")
    limit(low / 1.25, high * (1.6 if horizontal else 1.25))
    steps = (1.0,) if high / low > 300 else (1.0, 3.0) if high / low > 20 else (1.0, 2.0, 5.0)
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axis.set_minor_locator(NullLocator())
    axis.set_label_text(f"{unit} (log)")


def sheet(title: str, note: str, view: View, width: float, height: float) -> Figure:
    """Return an empty figure (inches) with title, note, and a warning for one repetition.

    The space for the panels is what ``layout="constrained"`` leaves.
    """
    figure = Figure(figsize=(width, height), layout="constrained")
    inch = 1 / height
    figure.text(0.008, 1 - 0.09 * inch, title, fontsize=13, fontweight="bold", va="top")
    figure.text(0.008, 1 - 0.36 * inch, note, fontsize=9, color="#555555", va="top")
    low, high = view.repetitions
    if low == 1:
        words = "One repetition only" if high == 1 else f"1 to {high} repetitions"
        warning = f"⚠ {words}: without a spread, a difference may be chance."
        figure.text(0.008, 0.06 * inch, warning, color=RED, fontweight="bold", va="bottom")
    else:
        count = str(low) if low == high else f"{low} to {high}"
        words = f"Medians of {count} repetitions; whiskers from the least to the greatest."
        figure.text(0.008, 0.06 * inch, words, color="#555555", fontsize=9, va="bottom")
    engine: Any = figure.get_layout_engine()
    engine.set(rect=(0.0, 0.3 * inch, 1.0, 1 - 0.95 * inch), w_pad=0.08, h_pad=0.06)
    return figure


def to_png(figure: Figure) -> bytes:
    """Return the figure as PNG."""
    out = io.BytesIO()
    with rc_context(RC):
        figure.savefig(out, format="png", dpi=130, metadata={"Software": None})
    return out.getvalue()


def to_svg(figure: Figure) -> bytes:
    """Return the figure as SVG, letters as shapes: it looks the same everywhere."""
    out = io.BytesIO()
    with rc_context(RC):
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()
