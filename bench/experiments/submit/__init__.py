"""How many ``delay()`` calls a second does one process make, and how many in bulk?"""

from bench.experiments.submit.cli import command

__all__ = ["command"]
