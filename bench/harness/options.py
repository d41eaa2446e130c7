"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from bench.harness.servers import KINDS

__all__ = ["common", "repetitions", "server_kind"]

Command = Callable[..., Any]


def common(command: Command) -> Command:
    """Add ``--json`` and ``--save``."""
    command = click.option(
        "--save", type=click.Path(dir_okay=False, path_type=Path),
        help="Keep the JSON object, raw figures included, in this file.",
    )(command)  # fmt: skip
    return click.option(
        "--json", "as_json", is_flag=True, help="End with one JSON object on the last line."
    )(command)


def server_kind(command: Command) -> Command:
    """Add ``--server``."""
    return click.option(
        "--server", default="redis", show_default=True, type=click.Choice(KINDS),
        help="Server of every arm on Redis: the installed redis-server or the embedded Valkey.",
    )(command)  # fmt: skip


def repetitions(default: int) -> Callable[[Command], Command]:
    """Return a decorator that adds ``--repetitions`` with its default."""
    return click.option(
        "--repetitions", default=default, show_default=True, type=click.IntRange(1),
        help="How often everything is measured.",
    )  # fmt: skip
