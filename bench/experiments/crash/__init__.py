"""Is a task lost or settled twice when a worker is killed that holds a hundred?"""

from bench.experiments.crash.cli import command

__all__ = ["command"]
