"""The folder of a run: what was measured, kept so that it survives an interruption."""

from bench.harness.results.folder import Results
from bench.harness.results.manifest import VERSION, Manifest
from bench.harness.results.merge import merge

__all__ = ["VERSION", "Manifest", "Results", "merge"]
