"""Tenants on the command line; see :mod:`~tq_celery.tenant_names` for how they are written."""

from __future__ import annotations

import click

from tq_celery.tenant_names import parse, show

__all__ = ["parse", "show", "tenant"]


def tenant(ctx: click.Context, param: click.Parameter, value: str | None) -> bytes | None:
    """Argument callback: a tenant given as text or as ``hex:...``."""
    if value is None:
        return None
    try:
        return parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None
