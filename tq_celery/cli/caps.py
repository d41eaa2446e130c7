"""How a cap on running tasks is written on the command line."""

from __future__ import annotations

from tq_celery.cli.groups import CommandError

__all__ = ["parse_cap"]

#: Greatest cap; more slots than any fleet has.
LARGEST = 2**31 - 1


def parse_cap(text: str) -> int | None:
    """Return a cap, or None for ``none``; raises CommandError for anything else."""
    if text.lower() == "none":
        return None
    if not text.isdecimal() or not 1 <= int(text) <= LARGEST:
        raise CommandError(
            f"max_running: {text!r} is not allowed; expected 1 to {LARGEST}, or none "
            "(to stop work altogether, pause it)"
        )
    return int(text)
