"""A limit of memory for the processes of one worker, so that the kernel itself kills for it.

A control group below that of this process, of version 1 or 2. Where none may be made (no root, a
read-only ``/sys/fs/cgroup``), :func:`memory_group` yields None.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from bench.harness.errors import BenchError
from bench.harness.process import until

__all__ = ["MemoryGroup", "memory_group"]

ROOT = Path("/sys/fs/cgroup")
#: Seconds for the last process of a group to be gone.
EMPTY = 20.0


class MemoryGroup:
    """One group. Memory that a process had before it joined stays with its former group."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, pids: Iterable[int]) -> None:
        """Move processes into the group; their children will be in it from the start."""
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                (self._folder / "cgroup.procs").write_text(str(pid))

    @property
    def kills(self) -> int:
        """How many processes the kernel has killed because the group had no memory left."""
        for name in ("memory.oom_control", "memory.events"):
            with contextlib.suppress(FileNotFoundError):
                return killed((self._folder / name).read_text())
        return 0


def killed(text: str) -> int:
    """Return the number in the line ``oom_kill`` of a group's file; 0 without one."""
    for line in text.splitlines():
        word, _, number = line.partition(" ")
        if word == "oom_kill":
            return int(number)
    return 0


def places(text: str) -> list[Path]:
    """Return where a group may be made, from the text of ``/proc/self/cgroup``; best first."""
    found = list[Path]()
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        inside = path.lstrip("/")
        if "memory" in controllers.split(","):
            found.insert(0, ROOT / "memory" / inside)
        elif not controllers:
            found.append(ROOT / inside)
    return found


@contextlib.contextmanager
def memory_group(name: str, limit: int) -> Iterator[MemoryGroup | None]:
    """Yield a group whose processes may take ``limit`` bytes together, or None.

    When it is left, all its processes must be on their way out; raises BenchError otherwise.
    """
    folder = _made(name, limit)
    if folder is None:
        yield None
        return
    try:
        yield MemoryGroup(folder)
    finally:
        until(lambda: _removed(folder), f"the processes in {folder} to end", EMPTY)


def _made(name: str, limit: int) -> Path | None:
    try:
        own = Path("/proc/self/cgroup").read_text()
    except OSError:
        return None
    for place in places(own):
        folder = place / name
        try:
            folder.mkdir()
        except OSError:
            continue
        for file in ("memory.limit_in_bytes", "memory.max"):
            if (folder / file).exists():
                try:
                    (folder / file).write_text(str(limit))
                    return folder
                except OSError:
                    break
        with contextlib.suppress(OSError):
            folder.rmdir()
    return None


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except OSError as error:
        if not folder.exists():
            raise BenchError(f"{folder} was removed by another") from error
        return False
    return True
