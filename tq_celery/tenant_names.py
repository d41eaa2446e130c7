"""Tenants as people type and read them.

A tenant is any bytes. Most are plain text and are written as they are; others are written as
``hex:ff00``, which is read back everywhere a tenant is typed.
"""

from __future__ import annotations

__all__ = ["parse", "show"]

PREFIX = "hex:"
#: Longest tenant in bytes.
LONGEST = 256


def show(raw: bytes) -> str:
    """Return printable text that :func:`parse` turns back into ``raw``."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return PREFIX + raw.hex()
    if not text.isprintable() or text.startswith(PREFIX):
        return PREFIX + raw.hex()
    return text


def parse(text: str) -> bytes:
    """Return the bytes that ``text`` stands for; raises ``ValueError`` with the allowed form."""
    if text.startswith(PREFIX):
        try:
            raw = bytes.fromhex(text[len(PREFIX) :])
        except ValueError:
            raise ValueError(f"{text!r} is not {PREFIX} followed by hexadecimal digits") from None
    else:
        raw = text.encode(errors="surrogateescape")
    if not 1 <= len(raw) <= LONGEST:
        raise ValueError(f"a tenant has 1 to {LONGEST} bytes, not {len(raw)}")
    return raw
