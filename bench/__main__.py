"""Entry point: ``python -m bench list`` and ``python -m bench NAME``."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator, Sequence
from types import FrameType

import click

from bench.commands import digest, merge, quick, report, tables
from bench.experiments import (
    ceiling,
    control,
    crash,
    delaydrift,
    delayed,
    drain,
    failover,
    fairgate,
    guards,
    headtohead,
    latency,
    matrix,
    partition,
    priority,
    race,
    realwork,
    repetitions,
    retrystorm,
    scrape,
    serverfaults,
    soak,
    storefault,
    submit,
    sweep,
    workerloss,
)

EXPERIMENTS = (
    matrix.command,
    control.command,
    sweep.command,
    realwork.command,
    repetitions.command,
    ceiling.command,
    drain.command,
    submit.command,
    latency.command,
    delayed.command,
    delaydrift.command,
    priority.command,
    race.command,
    crash.command,
    failover.command,
    partition.command,
    workerloss.command,
    storefault.command,
    serverfaults.command,
    guards.command,
    retrystorm.command,
    fairgate.command,
    headtohead.command,
    scrape.command,
    soak.command,
)


@click.group(epilog="Each experiment is described in bench/experiments/NAME/README.md.")
def main() -> None:
    """Measure tq-celery against stock Celery, on real servers started for the run.

    Example: python -m bench drain --pool threads --repetitions 3 --json
    """


@main.command("list")
def list_experiments() -> None:
    """Name the experiments and their questions."""
    for item in EXPERIMENTS:
        print(f"{item.name:14}{item.help}")


for experiment in EXPERIMENTS:
    main.add_command(experiment)


for tool in (
    merge.command,
    report.command,
    digest.command,
    tables.command,
    quick.command,
):
    main.add_command(tool)


def _interrupted(number: int, frame: FrameType | None) -> None:
    # As an exception, so that every server and worker is stopped on the way out.
    raise KeyboardInterrupt


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP interrupt the block, unless whoever started it ignores them."""
    numbers = (signal.SIGTERM, signal.SIGHUP)  # ignored, by nohup say, they stay so
    before = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, _interrupted)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 2 after an error, 130 when interrupted."""
    try:
        with _signals():
            main.main(arguments, prog_name="python -m bench", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message())
        return 2
    except click.ClickException as error:
        print("bench: " + " ".join(error.format_message().split()), file=sys.stderr)
        return 2
    except (KeyboardInterrupt, click.Abort):
        print("bench: interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(run())
