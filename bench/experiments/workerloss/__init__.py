"""What does the loss of a worker cost, in each pool and for each way to lose it?"""

from bench.experiments.workerloss.cli import command

__all__ = ["command"]
