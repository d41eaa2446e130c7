"""At which offered load does the policy matter, and what does edf pay for its deadlines?"""

from bench.experiments.sweep.cli import command

__all__ = ["command"]
