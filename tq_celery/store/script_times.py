"""How long this process's calls of each script took, and how they failed."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock

from tq_celery.metrics.buckets import CALL_BOUNDS, Buckets

__all__ = ["SCRIPT_TIMES", "ScriptTimes"]


class ScriptTimes:
    """Times and errors by script; any thread may add. Off until :meth:`keep` is called."""

    def __init__(self) -> None:
        #: Whether calls are timed.
        self.on = False
        self._lock = Lock()
        self._times: dict[str, Buckets] = {}
        self._errors: dict[tuple[str, str], int] = {}

    def keep(self) -> None:
        """Begin to time calls."""
        self.on = True

    def add(self, script: str, seconds: float, error: BaseException | None = None) -> None:
        """Note a call, and the error that ended it."""
        with self._lock:
            times = self._times.get(script)
            if times is None:
                times = self._times[script] = Buckets(CALL_BOUNDS)
            times.add(seconds)
            if error is not None:
                kind = (script, type(error).__name__)
                self._errors[kind] = self._errors.get(kind, 0) + 1

    def times(self) -> Mapping[str, Buckets]:
        """Return the times by script."""
        with self._lock:
            return dict(self._times)

    def errors(self) -> Mapping[tuple[str, str], int]:
        """Return how often each kind of error ended each script."""
        with self._lock:
            return dict(self._errors)


#: Those of this process.
SCRIPT_TIMES = ScriptTimes()
