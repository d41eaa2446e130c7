"""Who dispatches and who settles when a network cuts a leader or a worker off?"""

from __future__ import annotations

from bench.experiments.partition.cli import command

__all__ = ["command"]
