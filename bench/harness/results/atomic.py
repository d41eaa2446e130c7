"""Files that are whole or absent, whatever happens to the process that writes them."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["clear_partial", "write"]

#: How the name of an unfinished file ends.
PARTIAL = ".partial"


def write(path: Path, content: str | bytes) -> None:
    """Put ``content`` at ``path`` in one step: a reader sees the old file or the new one.

    The folder is created where it is missing. OSError when the disk refuses; the old file stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + PARTIAL)
    with partial.open("wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        # The name must not reach the disk before the content does.
        os.fsync(file.fileno())
    partial.replace(path)


def clear_partial(folder: Path) -> None:
    """Remove what writers that were killed have left in ``folder``."""
    for partial in folder.glob(f"*{PARTIAL}"):
        partial.unlink()
