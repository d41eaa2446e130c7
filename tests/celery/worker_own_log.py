"""The application of the worker tests with a log of its own."""

from __future__ import annotations

import logging
from typing import Any

from celery.signals import setup_logging

from tests.celery.worker_main import app

__all__ = ["app"]


@setup_logging.connect
def set_up(**_: Any) -> None:
    logging.basicConfig(format="OWN %(levelname)s %(message)s", level="INFO")
