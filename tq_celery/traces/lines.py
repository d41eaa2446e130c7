"""Numbered text lines of a plain or gzip file; every way it can be broken becomes a TraceError.

A gzip file that stops early has already yielded good lines when the break shows. It raises at the
break, so that a caller who surveys a trace before using it never mistakes a part for the whole.
"""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from tq_celery.errors import TraceError

__all__ = ["number", "numbered_lines"]

#: Longest line accepted, in bytes: a file without newlines must not fill the memory.
MAX_LINE = 1 << 20

_GZIP_MAGIC = b"\x1f\x8b"


def numbered_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yield ``(line number from 1, text without its newline)``.

    The content decides whether it is gzip; a name ending in ``.gz`` must hold gzip. Raises
    TraceError with the number of the line where reading failed.
    """
    name, line = str(path), 0
    try:
        with _open(path) as stream:
            while raw := stream.readline(MAX_LINE + 1):
                line += 1
                if len(raw) > MAX_LINE:
                    raise TraceError(name, line, f"line is longer than {MAX_LINE} bytes")
                yield line, raw.decode("utf-8", "replace").rstrip("\r\n")
    except EOFError as error:
        raise TraceError(
            name, line + 1, "the gzip data is truncated; this is not the whole trace"
        ) from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(name, line + 1, f"the gzip data is damaged ({error})") from error
    except OSError as error:
        raise TraceError(name, line, error.strerror or str(error)) from error


def _open(path: str | Path) -> IO[bytes]:
    path = Path(path)
    with path.open("rb") as probe:
        magic = probe.read(2)
    if not magic:
        raise TraceError(str(path), 0, "the file is empty")
    if magic == _GZIP_MAGIC:
        return cast("IO[bytes]", gzip.open(path, "rb"))
    if path.suffix == ".gz":
        raise TraceError(str(path), 1, "the name ends in .gz but this is not gzip data")
    return path.open("rb")


def number(text: str) -> float:
    """Parse a finite number; raises ValueError in words that suit a message."""
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is not a number") from None
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]!r} is not a finite number")
    return value
