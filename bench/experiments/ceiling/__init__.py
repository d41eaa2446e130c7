"""How many tasks a second can one scheduler admit and dispatch, and what does the fence cost?"""

from bench.experiments.ceiling.cli import command

__all__ = ["command"]
