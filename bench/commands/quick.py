"""``python -m bench quick``: does every experiment still work, and leave all it has to leave?"""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from bench.harness.cell_options import Word
from bench.harness.errors import BenchError
from bench.quick.after import after
from bench.quick.run import run as run_step
from bench.quick.steps import STEPS

__all__ = ["command"]

OUT = Path("results/quick")
#: File by which a folder of this command is known.
MARK = ".quick"


@click.command("quick")
@click.option(
    "--only", multiple=True, type=Word([step.name for step in STEPS]), metavar="STEP",
    help="Only these.",
)  # fmt: skip
@click.option(
    "--out", default=OUT, show_default=True, type=click.Path(file_okay=False, path_type=Path),
    help="Folder of what the experiments leave; an earlier one of this command is replaced.",
)  # fmt: skip
def command(only: tuple[str, ...], out: Path) -> None:
    """Run every experiment very small and check that nothing of it is missing.

    Says whether they work, nothing about how fast anything is. Example: python -m bench quick
    """
    steps = [step for step in STEPS if not only or step.name in only]
    _clear(out)
    failed: list[str] = []
    total = 0.0

    def tell(name: str, problems: list[str], seconds: float) -> None:
        nonlocal total
        total += seconds
        print(f"{name:14}{seconds:6.1f} s  {problems[0] if problems else 'complete'}", flush=True)
        for problem in problems[1:]:
            print(f"{'':24}{problem}", flush=True)
        failed.extend([name] if problems else [])

    for step in steps:
        tell(step.name, *run_step(step, out))
    for step in steps:
        if step.plots is not None and step.name not in failed:
            tell(f"{step.name} anew", *after(out / step.name, out))
            break
    print(f"{len(steps)} experiments in {total:.0f} s, into {out}", flush=True)
    if failed:
        raise BenchError(f"not complete: {', '.join(failed)}")


def _clear(out: Path) -> None:
    """Make an empty folder of this command; BenchError when there is something else."""
    if out.exists() and not (out / MARK).exists():
        raise BenchError(f"{out} is not a folder of this command: choose another one with --out")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / MARK).touch()
