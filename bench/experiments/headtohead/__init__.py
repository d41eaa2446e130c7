"""What does fair scheduling gain and cost against stock Celery, as people set it up?"""

from bench.experiments.headtohead.cli import command

__all__ = ["command"]
