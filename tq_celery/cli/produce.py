"""``tq produce``: offer a workload to a running deployment."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import click
from kombu.exceptions import OperationalError

from tq_celery.cli.durations import duration
from tq_celery.cli.groups import CommandError, TQCommand, option
from tq_celery.cli.output import print_json
from tq_celery.cli.produce_report import Progress, Report, plan_text
from tq_celery.cli.session import Session, with_session
from tq_celery.errors import (
    BulkError,
    DuplicateTaskError,
    ProduceError,
    QueueFullError,
    StoreError,
    StoreUnavailableError,
)
from tq_celery.produce.claim import Claim, Run, take
from tq_celery.produce.follow import Follower, follow
from tq_celery.produce.halt import halted_by_signals
from tq_celery.produce.offer import Offer
from tq_celery.produce.pace import Submitted, submit
from tq_celery.produce.target import Target, target_of
from tq_celery.produce.task import Exec
from tq_celery.store.run_book import RunBook
from tq_celery.workloads.registry import DeadlineRule, make_workload

__all__ = ["produce"]

#: Length of the arrivals in seconds, when neither a window nor a count is asked for.
WINDOW = 60.0

#: Seconds between two looks at the results while tasks are submitted.
READ_EVERY = 0.25


@click.command(
    cls=TQCommand,
    examples=(
        "tq produce multi_tenant --window 30s --load 1.25 --slots 16 --wait",
        "tq produce uniform --count 50000 --at-once --prefix flood",
        "tq produce trace --trace LCG-2005.swf.gz --count 2000 --dry-run",
    ),
)
@click.argument("workload", metavar="WORKLOAD")
@option("--count", type=int, envvar="TQ_PRODUCE_COUNT", help="So many tasks.")
@option(
    "--window",
    callback=duration,
    envvar="TQ_PRODUCE_WINDOW",
    help=f"The tasks of so much time (default without --count: {WINDOW:g}s).",
)
@option(
    "--load",
    type=float,
    envvar="TQ_PRODUCE_LOAD",
    help="Work offered, as a multiple of what --slots can do (default: 1.25; llm: its own pace).",
)
@option("--rate", type=float, envvar="TQ_PRODUCE_RATE", help="Tasks per second, instead of a load.")
@option(
    "--slots",
    type=int,
    default=16,
    show_default=True,
    envvar="TQ_PRODUCE_SLOTS",
    help="Tasks that the deployment's workers run at a time; --load refers to it.",
)
@option(
    "--seed",
    type=int,
    default=1,
    show_default=True,
    envvar="TQ_PRODUCE_SEED",
    help="The same seed gives the same tasks, on every machine.",
)
@option(
    "--prefix",
    envvar="TQ_PRODUCE_PREFIX",
    help="Ids are PREFIX-SEED-NUMBER (default: the workload's name).",
)
@option(
    "--longest",
    callback=duration,
    default="4s",
    show_default=True,
    envvar="TQ_PRODUCE_LONGEST",
    help="No task of heavy_tailed or trace takes longer.",
)
@option(
    "--seconds",
    callback=duration,
    envvar="TQ_PRODUCE_SECONDS",
    help="How long each task of fixed takes.",
)
@option(
    "--trace",
    type=click.Path(path_type=Path),
    envvar="TQ_PRODUCE_TRACE",
    help="The recording for trace: .swf, or .csv with columns such as timestamp and duration.",
)
@option(
    "--deadline",
    nargs=3,
    type=float,
    metavar="BASE FACTOR JITTER",
    envvar="TQ_PRODUCE_DEADLINE",
    help="Deadlines: BASE + FACTOR x run time + up to JITTER, in seconds (default: 1 10 0.2).",
)
@option("--no-deadline", is_flag=True, envvar="TQ_PRODUCE_NO_DEADLINE", help="No deadlines.")
@option(
    "--exec",
    "how",
    type=click.Choice(get_args(Exec)),
    default="sleep",
    show_default=True,
    envvar="TQ_PRODUCE_EXEC",
    help="How tasks spend their time: asleep, or on a processor.",
)
@option(
    "--queue", envvar="TQ_PRODUCE_QUEUE", help="Queue of the tasks (default: the application's)."
)
@option("--at-once", is_flag=True, envvar="TQ_PRODUCE_AT_ONCE", help="Submit as fast as possible.")
@option(
    "--wait",
    is_flag=True,
    envvar="TQ_PRODUCE_WAIT",
    help="Wait until all have ended, and say how long each tenant's tasks waited.",
)
@option("--dry-run", is_flag=True, envvar="TQ_PRODUCE_DRY_RUN", help="Say what would be submitted.")
@with_session
def produce(
    session: Session,
    workload: str,
    count: int | None,
    window: float | None,
    load: float | None,
    rate: float | None,
    slots: int,
    seed: int,
    prefix: str | None,
    longest: float,
    seconds: float | None,
    trace: Path | None,
    deadline: tuple[float, float, float] | None,
    no_deadline: bool,
    how: Exec,
    queue: str | None,
    at_once: bool,
    wait: bool,
    dry_run: bool,
) -> None:
    """Submit the tasks of WORKLOAD to a running deployment, each at its time.

    WORKLOAD is uniform, bursty, heavy_tailed, multi_tenant, llm, fixed or trace. The tasks really
    take their time in the deployment's workers, which run them with "celery -A
    tq_celery.produce.app worker", or, with -A, in those of an application that has registered
    them. Submitting never waits for workers; how late it was is printed as lag.

    The ids follow from prefix and seed, so a run is recognised when it is given again: it is
    refused when all of it was submitted, also when its tasks have long ended, and one that was
    interrupted goes on where it was.
    """
    if load is not None and rate is not None and workload != "trace":
        raise CommandError("--load and --rate: give one of them")
    if deadline is not None and no_deadline:
        raise CommandError("--deadline and --no-deadline: give one of them")
    if at_once and count is not None and load is None and rate is None and workload != "trace":
        rate = math.inf
    if window is None and count is None:
        window = WINDOW
    works = make_workload(
        workload,
        seed=seed,
        window=window,
        count=count,
        slots=slots,
        load=load,
        rate=rate,
        longest=longest,
        deadline=None if no_deadline else DeadlineRule(*(deadline or ())),
        seconds=seconds,
        trace=trace,
    )
    if at_once:
        works = [work._replace(at=0.0) for work in works]
    offer = Offer(workload, works, seed, workload if prefix is None else prefix, how, queue)
    report = Report(offer, slots)
    if dry_run:
        _print(session, report, "\n".join(plan_text(offer, slots)))
        return
    target = target_of(session.app, session.settings, queue)
    code = _run(session, target, report, wait)
    _print(session, report, report.as_text())
    if code:
        raise SystemExit(code)


def _print(session: Session, report: Report, text: str) -> None:
    if session.json:
        print_json(report.as_json())
    else:
        click.echo(text)


def _run(session: Session, target: Target, report: Report, wait: bool) -> int:
    """Submit, and wait if asked to; returns the exit code."""
    offer, settings = report.offer, session.settings
    progress = Progress(offer, quiet=session.json)
    with contextlib.closing(RunBook.open(settings)) as book, halted_by_signals() as halt:
        store = session.store  # refuses a namespace of another version
        report.at(settings.namespace, target.queue, target.shortcomings(session.inspector))
        wanted = Run(offer.workload, offer.digest, len(offer.works))
        claim = take(book, offer.run, wanted, settings.done_memory)
        if not session.json:
            _announce(report, claim)
        if wait:
            report.follower = Follower(book, offer.run, len(offer.works), claim.run.results)
        try:
            report.done = submit(
                offer.works, claim, target.sender(offer), halt, _watch(progress, report)
            )
            if report.follower is not None and not halt.is_set():
                report.unseen = follow(report.follower, store, halt, progress.waiting)
        except BulkError as error:
            raise _stopped(claim, error) from error
        except StoreUnavailableError as error:
            if report.done is None:
                raise _stopped(claim, error) from error
            raise ProduceError(
                f"all {len(offer.works)} tasks are submitted; waiting for them ended: {error}"
            ) from error
        finally:
            progress.close()
        if halt.is_set():
            click.echo(f"tq: stopped by {halt.word}", err=True)
        return halt.exit_code


def _watch(progress: Progress, report: Report) -> Callable[[Submitted], None]:
    """Return what is called while tasks are submitted."""
    read = time.monotonic()

    def look(done: Submitted) -> None:
        nonlocal read
        progress.submitting(done)
        # Results are capped: those of a long run have to be read while they are there.
        if report.follower is not None and time.monotonic() - read > READ_EVERY:
            report.follower.poll()
            read = time.monotonic()

    return look


def _announce(report: Report, claim: Claim) -> None:
    """Say on stderr what is being done, and what will keep it from being run."""
    total = len(report.offer.works)
    if claim.start:
        line = f"run {claim.name} was interrupted: going on at task {claim.start} of {total}"
    else:
        line = plan_text(report.offer, report.slots)[0]
    for each in (line, *(f"note: {note}" for note in report.notes)):
        click.echo(each, err=True)


def _stopped(claim: Claim, error: Exception) -> ProduceError:
    """Say in one line why submitting stopped, and how far it is."""
    reason: Exception = error
    if isinstance(error, BulkError):
        reason = error.errors[min(error.errors)]
    run = claim.run
    if isinstance(reason, DuplicateTaskError):
        return ProduceError(f"{reason}; choose another --seed or --prefix")
    if not isinstance(reason, StoreError | OperationalError | QueueFullError):
        return ProduceError(f"submitting stopped after {run.sent} of {run.total} tasks: {reason}")
    return ProduceError(
        f"submitting stopped after {run.sent} of {run.total} tasks: {reason}; the same command "
        "goes on with the rest"
    )
