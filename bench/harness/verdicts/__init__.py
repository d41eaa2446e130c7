"""Whether a run shows what it has to show: one file of rules per experiment."""

from bench.harness.verdicts.judge import judge
from bench.harness.verdicts.verdict import Verdict

__all__ = ["Verdict", "judge"]
