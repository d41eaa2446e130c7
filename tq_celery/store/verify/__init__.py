"""Holds a namespace against its promises: what was settled, what is live, and what is counted.

:func:`verify` reads and never writes. ``run.py`` says how it looks; one file per promise says what
is compared.
"""

from __future__ import annotations

from tq_celery.store.verify.contract import Horizon, StreamSeen, Verification, Violation
from tq_celery.store.verify.run import verify

__all__ = ["Horizon", "StreamSeen", "Verification", "Violation", "verify"]
