"""The kinds of table that a page may ask for, of files that ``digest`` or ``--save`` wrote.

``figures DATA``   ``DATA.csv`` by two of workload, load, exec, arm, scope, figure
``ratios DATA``    ``DATA-ratios.csv``, the same and versus
``verdicts DATA``  ``DATA-verdicts.csv``: every pass rule, or those of ``name=``, a pattern
``machine DATA``   where it was measured, a line for each environment
``json DATA``      at ``path=a.b`` of ``DATA.json``: a list of flat objects, or an object of them;
                   ``columns=`` names which of their fields

Options of the first two: ``rows=`` (arm) and ``columns=`` (workload), any dimension with the words
or patterns that are wanted of it, commas between them, ``show=spread`` or ``median``, ``ideal=yes``
for the ideal server's figure behind a semicolon, ``unit=s``, ``ms``, ``%`` or ``x``. ``scope`` is
``all`` unless given.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bench.digest.figures import figures, ratios
from bench.digest.lists import listed, machine, verdicts
from bench.digest.request import Options, Table, parse
from bench.harness.errors import BenchError
from tq_celery.setting_checks import did_you_mean

__all__ = ["KINDS", "make"]

#: Kind -> what makes it of the data's path (without ending) and the options.
KINDS: dict[str, Callable[[Path, Options], Table]] = {
    "figures": figures,
    "ratios": ratios,
    "verdicts": verdicts,
    "machine": machine,
    "json": listed,
}


def make(request: str, data: Path) -> Table:
    """Return the table that ``request`` asks for, of files in ``data``; raises BenchError."""
    kind, source, options = parse(request)
    if kind not in KINDS:
        raise BenchError(
            f"{kind!r} is not one of {', '.join(KINDS)}{did_you_mean(kind, list(KINDS))}"
        )
    table = KINDS[kind](data / source, options)
    options.end()
    return table
