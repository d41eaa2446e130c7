"""A sorted set: members with a sort key each, the least one first."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Any

__all__ = ["Ranked"]


class Ranked:
    """Members (bytes) in the order of their keys; equal keys in the order of the members."""

    def __init__(self) -> None:
        self._keys: dict[bytes, Any] = {}
        self._order: list[tuple[Any, bytes]] = []

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, member: bytes) -> bool:
        return member in self._keys

    def __iter__(self) -> Iterator[tuple[bytes, Any]]:
        """Yield members with their keys, in order."""
        return ((member, key) for key, member in self._order)

    def get(self, member: bytes) -> Any:
        """Return the key of ``member``, or None."""
        return self._keys.get(member)

    def add(self, member: bytes, key: Any) -> None:
        """Put ``member`` in at ``key``, moving it if it is there already."""
        self.remove(member)
        self._keys[member] = key
        insort(self._order, (key, member))

    def remove(self, member: bytes) -> bool:
        """Take ``member`` out; False when it was not there."""
        if member not in self._keys:
            return False
        item = (self._keys.pop(member), member)
        del self._order[bisect_left(self._order, item)]
        return True

    def first(self) -> tuple[bytes, Any] | None:
        """Return the least member and its key, or None."""
        if not self._order:
            return None
        key, member = self._order[0]
        return member, key
