"""``tq replay``: a recorded workload through real workers, under stock Celery or a policy."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import click

from tq_celery.cli.durations import duration
from tq_celery.cli.groups import CommandError, TQCommand, option
from tq_celery.cli.output import print_json
from tq_celery.cli.replay_report import Report, as_json, as_text, update_page
from tq_celery.cli.replay_source import Source, trace_options
from tq_celery.cli.session import Session, with_session
from tq_celery.replay.arm import POLICIES
from tq_celery.replay.cluster import ClusterShape
from tq_celery.replay.engine import Run, run_arm
from tq_celery.replay.progress import Progress
from tq_celery.replay.raw import RawFile
from tq_celery.replay.signals import Ended, ended_by_signals
from tq_celery.replay.summary import summarise
from tq_celery.workloads.scaling import CostRule, choose_scale, scaled, survey

__all__ = ["replay"]


def weights(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[str, float]:
    """Option callback: ``TENANT=WEIGHT`` pairs."""
    found = {}
    for text in value:
        tenant, separator, number = text.rpartition("=")
        try:
            weight = float(number)
        except ValueError:
            weight = 0.0
        if not separator or not tenant or not 1e-3 <= weight <= 1e6:
            raise click.BadParameter(
                f"{text!r}: expected TENANT=WEIGHT with a weight from 0.001 to 1000000", ctx, param
            )
        found[tenant] = weight
    return found


def policies(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    """Option callback: one policy or several with commas between."""
    chosen = tuple(name.strip() for name in value.split(",") if name.strip())
    unknown = [name for name in chosen if name not in POLICIES]
    if unknown or not chosen or len(set(chosen)) != len(chosen):
        raise click.BadParameter(
            f"{value!r}: expected different ones of {', '.join(POLICIES)}", ctx, param
        )
    return chosen


@click.command(
    cls=TQCommand,
    examples=(
        "tq replay LCG-2005.swf.gz --jobs 5000 --load 1.25 --policies stock,fifo,wfq",
        "tq replay requests.csv.gz --time-column TIMESTAMP --cost-column ContextTokens --load 0.9",
    ),
)
@option(
    "--policy",
    "--policies",
    "chosen",
    default="wfq",
    show_default=True,
    callback=policies,
    metavar="NAMES",
    envvar="TQ_REPLAY_POLICY",
    help=f"One of {', '.join(POLICIES)}; several with commas run one after the other.",
)
@option(
    "--speedup",
    type=click.FloatRange(min=0, min_open=True),
    envvar="TQ_REPLAY_SPEEDUP",
    help="Divide recorded time by this (default: what --span asks for).",
)
@option(
    "--span",
    default="60s",
    show_default=True,
    callback=duration,
    envvar="TQ_REPLAY_SPAN",
    help="How long submitting takes, when there is no --speedup.",
)
@option(
    "--load",
    type=click.FloatRange(min=0, min_open=True),
    envvar="TQ_REPLAY_LOAD",
    help="Scale run times so that the work offered is this many times what the slots can do.",
)
@option(
    "--max-exec",
    callback=duration,
    envvar="TQ_REPLAY_MAX_EXEC",
    help="No task sleeps for longer than this.",
)
@option(
    "--cost",
    type=click.Choice(get_args(CostRule)),
    envvar="TQ_REPLAY_COST",
    help="What a task is declared to cost (default: trace with cost columns, else run-time).",
)
@option(
    "--slots",
    type=click.IntRange(1, 4096),
    default=16,
    show_default=True,
    envvar="TQ_REPLAY_SLOTS",
    help="Tasks that run at a time, over all workers.",
)
@option(
    "--workers",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    envvar="TQ_REPLAY_WORKERS",
    help="Celery worker processes.",
)
@option(
    "--pool",
    type=click.Choice(["threads", "prefork", "solo", "gevent"]),
    default="threads",
    show_default=True,
    envvar="TQ_REPLAY_POOL",
    help="Celery's worker pool.",
)
@option(
    "--schedulers",
    type=click.IntRange(1, 8),
    default=1,
    show_default=True,
    envvar="TQ_REPLAY_SCHEDULERS",
    help="Scheduler processes; one of them leads.",
)
@option(
    "--weight",
    "weighting",
    multiple=True,
    callback=weights,
    metavar="TENANT=WEIGHT",
    envvar="TQ_REPLAY_WEIGHT",
    help="Weight of one tenant; may be given several times.",
)
@option(
    "--top",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    envvar="TQ_REPLAY_TOP",
    help="Tenants in the printed table; --json has all.",
)
@option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default="tq-replay.csv",
    show_default=True,
    envvar="TQ_REPLAY_OUTPUT",
    help="Raw records, as CSV.",
)
@option(
    "--page",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="TQ_REPLAY_PAGE",
    help="Put the tables into this Markdown page, between its marks.",
)
@trace_options
@with_session
def replay(
    session: Session,
    source: Source,
    chosen: tuple[str, ...],
    speedup: float | None,
    span: float,
    load: float | None,
    max_exec: float | None,
    cost: CostRule | None,
    slots: int,
    workers: int,
    pool: str,
    schedulers: int,
    weighting: dict[str, float],
    top: int,
    output: Path,
    page: Path | None,
) -> None:
    """Replay TRACE as Celery tasks that sleep, and say how long each tenant waited.

    TRACE is a Standard Workload Format file (.swf, .swf.gz), whose users become tenants, or a CSV
    file (.csv, .csv.gz), whose columns are named with the --*-column options. The tasks are real,
    and so are the workers; server, schedulers and workers are started for the run and ended with
    it. --policy stock sends the same tasks through plain Celery on the same kind of server.
    """
    if slots < workers or (pool == "solo" and slots != workers):
        wanted = "exactly" if pool == "solo" else "at least"
        raise CommandError(f"--slots {slots}: {workers} workers have {wanted} one slot each")
    if cost is None:
        cost = "trace" if source.columns is not None and source.columns.cost else "run-time"
    skips = source.skips()
    found = survey(source.jobs(skips))
    scale = choose_scale(
        found, slots, speedup=speedup, span=span, load=load, max_exec=max_exec, cost=cost
    )
    url = session.given.get("url")
    shape = ClusterShape(slots, workers, schedulers, pool, url, tuple(weighting.items()))
    report = Report(source.path, found, scale, shape, skips, output)
    click.echo("\n".join(report.heading()), err=True)
    try:
        with ended_by_signals(), RawFile(output) as raw:
            for number, policy in enumerate(chosen, 1):
                label = policy if len(chosen) == 1 else f"{policy} ({number} of {len(chosen)})"
                run = _arm(policy, label, source, report)
                raw.add(run)
                report.summaries.append(summarise(run, slots, weighting))
    except Ended as ended:
        click.echo(f"tq: {ended}: incomplete, {_kept(report)}", err=True)
        raise SystemExit(ended.exit_code) from None
    if page is not None:
        update_page(page, report, top)
    if session.json:
        print_json(as_json(report))
    else:
        click.echo("\n".join(as_text(report, top)))


def _arm(policy: str, label: str, source: Source, report: Report) -> Run:
    found, scale, shape = report.found, report.scale, report.shape
    progress = Progress(label, shape.slots, found.span / scale.speedup, found.work(scale))
    try:
        works = scaled(source.jobs(source.skips()), scale)
        return run_arm(policy, shape, works, found.jobs, watch=progress)
    finally:
        progress.close()


def _kept(report: Report) -> str:
    whole = ", ".join(summary.policy for summary in report.summaries) or "no arm"
    return f"{whole} ran to its end; records so far are in {report.output}.partial"
