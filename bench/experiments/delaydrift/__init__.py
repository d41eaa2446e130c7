"""How much later than it was due does a task with a countdown start?"""

from bench.experiments.delaydrift.cli import command

__all__ = ["command"]
