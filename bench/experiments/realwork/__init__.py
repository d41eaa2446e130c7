"""What is left of the policies' effects when tasks compute instead of sleeping?"""

from bench.experiments.realwork.cli import command

__all__ = ["command"]
