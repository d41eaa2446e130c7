"""How much later does a task start with a scheduler on the path, and what does idling cost?"""

from bench.experiments.latency.cli import command

__all__ = ["command"]
