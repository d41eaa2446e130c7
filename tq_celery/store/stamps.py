"""The stamps of a stored message: values of headers by which whole groups of tasks are revoked."""

from __future__ import annotations

import json

__all__ = ["stamp_mark", "stamps_of"]


def stamps_of(payload: bytes | None) -> list[tuple[str, str]]:
    """Return the (header, value) stamps of a stored message; empty for one that has none."""
    if payload is None or b'"stamps"' not in payload:
        return []
    found = []
    try:
        headers = json.loads(payload)["headers"]
        stamps = headers.get("stamps") or {}
        for header in headers.get("stamped_headers") or ():
            values = stamps.get(header)
            for value in values if isinstance(values, list) else [values]:
                if value is not None:
                    found.append((str(header), str(value)))
    except (ValueError, TypeError, KeyError, AttributeError):
        return []
    return found


def stamp_mark(header: str, value: object) -> bytes:
    """Return the member of ``revoked_stamps`` for one value of a stamped header."""
    return f"{header}\0{value}".encode("utf-8", "surrogatepass")
