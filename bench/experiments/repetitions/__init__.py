"""How many repetitions does a figure need until more of them do not move it?"""

from bench.experiments.repetitions.cli import command

__all__ = ["command"]
