"""Where tracing begins: the one module of it that is imported while it is off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tq_celery.errors import SettingsError
from tq_celery.settings import Settings

if TYPE_CHECKING:
    from tq_celery.tracing.spans import Tracing

__all__ = ["open_tracing"]


def open_tracing(settings: Settings) -> Tracing | None:
    """Return what writes spans, None when tracing is off.

    Raises SettingsError when it is on and OpenTelemetry is not installed.
    """
    if settings.tracing == "off":
        return None
    try:
        from tq_celery.tracing.spans import Tracing
    except ModuleNotFoundError as error:
        allowed = "off, or an installed otel extra: pip install 'tq-celery[otel]'"
        raise SettingsError("tq_tracing", settings.tracing, allowed) from error
    return Tracing(settings.namespace)
