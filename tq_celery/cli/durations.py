"""Durations on the command line: a number and a unit, because a bare 30 says nothing."""

from __future__ import annotations

import click

from tq_celery import setting_checks

__all__ = ["duration", "duration_or_none", "format_age", "parse_duration"]

ALLOWED = "a number with a unit: 500ms, 30s, 5m, 2h or 1d"


def parse_duration(text: str) -> float:
    """Return the seconds in ``text``; raises ``ValueError`` that names the allowed form."""
    try:
        if not text.strip()[-1:].isalpha():
            raise ValueError(text)
        return setting_checks.parse_duration(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a duration; expected {ALLOWED}") from None


def format_age(seconds: float) -> str:
    """Return a duration for people: ``350ms``, ``4.2s``, ``3m05s``, ``2h10m``, ``5d03h``."""
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours < 48 else f"{hours // 24}d{hours % 24:02d}h"


def duration(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Option callback: seconds of a duration given with its unit."""
    if value is None:
        return None
    try:
        return parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def duration_or_none(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> float | str | None:
    """Option callback: seconds, or the word ``none``; None when nothing was given."""
    return "none" if value is not None and value.lower() == "none" else duration(ctx, param, value)
