"""What does each guard prevent? The same fault with it and without it."""

from __future__ import annotations

from bench.experiments.guards.cli import command

__all__ = ["command"]
