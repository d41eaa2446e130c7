"""Every test here uses real processes and takes seconds: all of them are slow."""

from __future__ import annotations

from tests.chaos.cluster import cluster_of

__all__ = ["cluster_of"]
