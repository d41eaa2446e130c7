"""How does the choice of policy affect latency, throughput, deadlines, fairness and starvation?"""

from bench.experiments.matrix.cli import command

__all__ = ["command"]
