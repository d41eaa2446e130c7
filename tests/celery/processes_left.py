"""Finding what a program left running: its processes carry a mark in their environment."""

from __future__ import annotations

import uuid
from pathlib import Path

__all__ = ["Mark"]


class Mark:
    """A mark that children inherit; ``environ`` is what to add for the program."""

    def __init__(self) -> None:
        self.text = uuid.uuid4().hex
        self.environ = {"REPLAY_TEST_MARK": self.text}

    def alive(self) -> list[str]:
        """Return the command lines of marked processes that have not ended."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if self.text.encode() in (path / "environ").read_bytes():
                    command = (path / "cmdline").read_bytes().replace(b"\0", b" ")
                    found.append(f"{path.name} {command.decode('utf-8', 'replace')}")
            except OSError:
                continue  # ended meanwhile, or not ours to read
        return found
