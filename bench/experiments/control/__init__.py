"""What does it cost that a scheduler decides, compared with tasks that go straight to workers?"""

from bench.experiments.control.cli import command

__all__ = ["command"]
