"""One true length per queue: what the broker holds and what the scheduler holds back, together.

A queue's length is what waits to be started: the broker's messages and the tasks that are submitted
or pending. Delayed tasks are not due, and those in flight are in the hands of the workers; both are
reported apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["merged"]


def merged(
    broker: Iterable[Mapping[str, Any]], ours: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the broker's rows with ours added, then the queues that only the scheduler knows."""
    rows = {row["name"]: dict(row) for row in broker}
    for queue in ours:
        row = rows.setdefault(queue["queue"], {"name": queue["queue"], "messages": 0})
        messages = row.get("messages") or 0
        waiting = queue["submitted"] + queue["pending"]
        in_flight = queue["dispatched"] + queue["running"]
        ready, unacked = row.get("messages_ready"), row.get("messages_unacknowledged")
        row["messages"] = messages + waiting
        row["messages_ready"] = (messages if ready is None else ready) + waiting
        row["messages_unacknowledged"] = (unacked or 0) + in_flight
        if row.get("consumers") is None:
            row["consumers"] = queue["workers"]
        row["scheduled"] = {
            "waiting": waiting, "delayed": queue["delayed"], "in_flight": in_flight,
        }  # fmt: skip
    return list(rows.values())
