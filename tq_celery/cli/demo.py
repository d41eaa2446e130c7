"""``tq demo``: what fair scheduling changes, seen in a minute."""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

import click
from rich.console import Console

from tq_celery.cli.groups import CommandError, TQCommand, option
from tq_celery.cli.output import print_json
from tq_celery.cli.session import Session, with_session
from tq_celery.demo.chart import draw
from tq_celery.demo.screen import Screen, comparison
from tq_celery.demo.story import tell
from tq_celery.demo.workload import FLOOD, QUIET, SLOTS, make_work
from tq_celery.replay.cluster import ClusterShape
from tq_celery.replay.engine import Run, run_arm
from tq_celery.replay.signals import Ended, ended_by_signals

__all__ = ["demo"]

SCHEDULERS = 2


@click.command(cls=TQCommand, examples=("tq demo --output chart.png",))
@option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default="tq-demo.png",
    show_default=True,
    envvar="TQ_DEMO_OUTPUT",
    help="Where the chart goes, as PNG.",
)
@option(
    "--seed",
    type=int,
    default=1,
    show_default=True,
    envvar="TQ_DEMO_SEED",
    help="The same seed gives the same work.",
)
@with_session
def demo(session: Session, output: Path, seed: int) -> None:
    """Show what fair scheduling changes, in less than a minute.

    Three tenants share one Celery worker, and one of them floods it. The same work runs first on
    stock Celery and then through two scheduler processes under wfq. Server, schedulers and worker
    are this command's own; it looks at no server that runs already and leaves nothing behind.
    """
    _check(output)
    begun = time.monotonic()
    console = Console(stderr=session.json)
    works = make_work(seed)
    totals = Counter(work.tenant for work in works)
    console.print(
        f"{FLOOD} sends {totals[FLOOD]} tasks at once; {' and '.join(QUIET)} send one now and "
        f"then. One Celery worker, {SLOTS} slots.",
        highlight=False,
        soft_wrap=True,
    )
    runs: dict[str, Run] = {}
    try:
        with ended_by_signals():
            for policy, title in (("stock", "1. stock Celery"), ("wfq", "2. tq-celery, wfq")):
                shape = ClusterShape(slots=SLOTS, schedulers=SCHEDULERS)
                console.print(f"{title}: starting", highlight=False)
                with Screen(console, title, totals) as screen:
                    runs[policy] = run_arm(policy, shape, works, len(works), watch=screen)
            story = tell(runs["stock"], runs["wfq"])
            draw(runs["stock"], runs["wfq"], story, output)
    except Ended as ended:
        console.print(f"stopped by {ended}; nothing is left running", highlight=False)
        raise SystemExit(ended.exit_code) from None
    if session.json:
        print_json({"seed": seed, "chart": str(output), **asdict(story)})
        return
    console.print(comparison(story))
    console.print(story.sentence, style="bold", highlight=False, soft_wrap=True)
    took = time.monotonic() - begun
    console.print(f"Chart: {output} ({took:.0f} s in all)", highlight=False, soft_wrap=True)


def _check(output: Path) -> None:
    """Fail now rather than after the runs."""
    if find_spec("matplotlib") is None:
        raise CommandError("demo needs 'matplotlib': pip install 'tq-celery[demo]'")
    folder = output.parent
    if not folder.is_dir() or not os.access(output if output.exists() else folder, os.W_OK):
        raise CommandError(f"--output {output}: cannot be written")
