"""What does each fault of the Redis server cost, and does everything go on by itself?"""

from __future__ import annotations

from bench.experiments.serverfaults.cli import command

__all__ = ["command"]
