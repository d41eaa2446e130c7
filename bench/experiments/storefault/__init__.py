"""What does a failover of the server destroy, and is an epoch ever given twice?"""

from __future__ import annotations

from bench.experiments.storefault.cli import command

__all__ = ["command"]
