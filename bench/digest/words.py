"""How figures are written in the documentation. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["amount", "markdown", "unit_of", "with_spread"]

#: Unit -> (factor from what the data has, what is written behind the number).
UNITS = {"s": (1.0, ""), "ms": (1000.0, ""), "%": (100.0, " %"), "us": (1.0, ""), "": (1.0, ""),
         "x": (1.0, " x")}  # fmt: skip
#: Figures whose data are shares.
SHARES = ("miss_rate", "utilisation")


def unit_of(figure: str) -> str:
    """Return the unit in which a figure is shown unless asked otherwise."""
    return "%" if figure in SHARES else ""


def amount(value: float, unit: str = "") -> str:
    """Return a number with three significant digits at least, never an exponent."""
    factor, behind = UNITS[unit]
    scaled = value * factor
    if not math.isfinite(scaled):
        return str(scaled)
    # Rounded first, as 9.996 has a digit more in front of its point than it seems.
    rounded = abs(float(f"{scaled:.3g}"))
    digits = 0 if rounded == 0 else max(0, 2 - math.floor(math.log10(rounded)))
    return f"{scaled:,.{0 if float(scaled).is_integer() else digits}f}{behind}"


def with_spread(median: float, least: float, greatest: float, unit: str = "") -> str:
    """Return a median with its bounds; the bounds are left out where they are all the same."""
    behind = UNITS[unit][1]
    texts = [amount(value, unit).removesuffix(behind) for value in (median, least, greatest)]
    bounds = "" if len(set(texts)) == 1 else f" ({texts[1]}..{texts[2]})"
    return f"{texts[0]}{behind}{bounds}"


def markdown(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table: the first column to the left, figures to the right."""
    rule = ["---", *["---:"] * (len(headers) - 1)]
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in (headers, rule, *rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in escaped)
