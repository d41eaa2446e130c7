"""No decision of a scheduler rests on this machine's wall clock.

sidekiq-scheduler/sidekiq-scheduler #283: a clock that was ahead ran everything at once.
"""

from __future__ import annotations

import ast
from pathlib import Path

import tq_celery.scheduler

WALL_CLOCKS = {"time", "time_ns", "now", "utcnow", "today", "localtime", "gmtime", "strftime"}


def test_no_module_reads_the_wall_clock() -> None:
    """Due times, leases and ages are the server's; spans are measured on the monotonic clock."""
    folder = Path(tq_celery.scheduler.__file__).parent
    modules = sorted(folder.glob("*.py"))
    assert len(modules) > 10
    for module in modules:
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                read = (node.value.id, node.attr)
                assert not (read[0] in {"time", "datetime", "date"} and read[1] in WALL_CLOCKS), (
                    f"{module.name}:{node.lineno} reads {'.'.join(read)}"
                )
