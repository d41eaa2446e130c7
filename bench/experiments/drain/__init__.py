"""How fast does a worker empty a queue of no-op tasks, with a scheduler on the path?"""

from bench.experiments.drain.cli import command

__all__ = ["command"]
