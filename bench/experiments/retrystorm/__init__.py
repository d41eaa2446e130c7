"""How much do retries bunch up after a thousand tasks failed together?"""

from bench.experiments.retrystorm.cli import command

__all__ = ["command"]
