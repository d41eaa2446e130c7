"""Does wfq share contended slots by weight where priorities starve, and at what throughput?"""

from bench.experiments.fairgate.cli import command

__all__ = ["command"]
