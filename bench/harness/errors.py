"""The one error of the bench: a sentence for the person who ran the command."""

from __future__ import annotations

import click

__all__ = ["BenchError"]


class BenchError(click.ClickException):
    """A run cannot be done or is void; printed as one line, exit code 2."""

    exit_code = 2
