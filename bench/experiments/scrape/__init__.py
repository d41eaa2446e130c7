"""How long does a scrape take, and what do metrics cost a worker that empties a queue?"""

from bench.experiments.scrape.cli import command

__all__ = ["command"]
