"""What all arms share: settings that decide what is compared, and the broker's address."""

from __future__ import annotations

import os
from typing import Any

__all__ = ["BROKER", "COMMON", "broker"]

#: Environment variable with the broker's address.
BROKER = "BASELINE_BROKER"

#: Late acks because at-least-once execution is what a scheduler promises; no results because
#: storing them costs every arm the same and would hide the difference.
COMMON: dict[str, Any] = {
    "task_acks_late": True,
    "task_ignore_result": True,
    "broker_connection_retry_on_startup": True,
    "worker_hijack_root_logger": False,
}


def broker(default: str) -> str:
    """Return the address of the broker, ``default`` where the environment names none."""
    return os.environ.get(BROKER, default)
