"""Does anything get lost or settled twice while workers, leaders and the server keep dying?"""

from __future__ import annotations

from bench.experiments.soak.cli import command

__all__ = ["command"]
