"""How many of the critical tasks are served before the first unimportant one?"""

from bench.experiments.priority.cli import command

__all__ = ["command"]
