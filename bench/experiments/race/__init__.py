"""How often do ten workers that pop at the same moment get the same task?"""

from bench.experiments.race.cli import command

__all__ = ["command"]
