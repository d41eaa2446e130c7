"""What do a hundred thousand waiting tasks cost, and how exact are they?"""

from bench.experiments.delayed.cli import command

__all__ = ["command"]
