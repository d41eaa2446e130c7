"""How long does dispatch stand still when the leader stops, is killed, or freezes?"""

from __future__ import annotations

from bench.experiments.failover.cli import command

__all__ = ["command"]
