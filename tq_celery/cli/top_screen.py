"""What ``tq top`` draws: made for 80 columns, and cut at the height of the terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tq_celery.cli.durations import format_age
from tq_celery.cli.policy import policy_line

__all__ = ["once_on", "picture", "watch_on"]

#: Lines above and between the tables, their headings included.
FIXED = 13
#: Fewest tenants shown, however low the terminal is, and most queues.
FEW, MOST_QUEUES = 3, 8
#: A tenant that got less than this part of its due is marked, when a task of it has waited for so
#: long, ms: one that has just come is nobody's fault.
STARVED, LONG = 0.5, 1_000

Snapshot = Mapping[str, Any]


class Watched(Protocol):
    """What is looked at again and again."""

    seen: dict[str, Any] | None
    error: str
    since: float
    namespace: str

    def again(self) -> None:
        """Look."""


def once_on(seen: Snapshot) -> None:
    """Print one picture, with every tenant."""
    console = Console(highlight=False)
    console.print(picture(seen, len(seen["tenants"]), len(seen["queues"])))


def watch_on(watched: Watched, every: float, wait: Callable[[float], str]) -> None:
    """Draw on the terminal until ``q`` or a signal; the terminal is put back as it was.

    ``wait`` waits for a key; any other is a look at once.
    """
    console = Console(highlight=False)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            watched.again()
            live.update(_page(watched, console.height), refresh=True)
            if "q" in wait(every).lower():
                return


def _page(watched: Watched, height: int) -> RenderableType:
    """Return the whole screen: what is known, and above it what is wrong."""
    if watched.seen is None:
        return Group(
            Text(f"namespace {watched.namespace}", style="bold"),
            Text(f"{watched.error}; trying again", style="red"),
        )
    queues = min(len(watched.seen["queues"]), MOST_QUEUES)
    tenants = max(FEW, height - FIXED - queues)
    shown = picture(watched.seen, tenants, queues)
    if not watched.error:
        return shown
    old = format_age(time.monotonic() - watched.since)
    warning = Text(f"{watched.error}; trying again. This is {old} old:", style="red")
    return Group(warning, shown)


def picture(seen: Snapshot, tenants: int, queues: int) -> RenderableType:
    """Return a namespace with up to so many tenants and queues."""
    parts: list[RenderableType] = [*_head(seen)]
    if not seen["queues"] and not seen["tenants"]:
        what = "No task was submitted here yet, and no worker serves this namespace."
        return Group(*parts, Text(), Text(what))
    parts += [Text(), _queues(seen["queues"][:queues])]
    parts += _others(len(seen["queues"]) - queues, "queues")
    if seen["tenants"]:
        parts += [Text(), _tenants(seen["tenants"][:tenants])]
        parts += _others(len(seen["tenants"]) - tenants, "tenants", seen["more_tenants"])
    return Group(*parts)


def _head(seen: Snapshot) -> list[Text]:
    leader, policy = seen["leader"], seen["policy"]
    if leader["owner"] is None:
        leads = Text("none: no scheduler leads (start tq scheduler)", style="red")
    else:
        left = format_age(max(0, leader["remaining"]) / 1000)
        leads = Text(f"{leader['owner']}, epoch {leader['epoch']}, lease {left}")
    stored = {"policy": policy["name"], **{each: policy[each] for each in _STORED}}
    said = policy_line({key: str(value) for key, value in stored.items() if value is not None})
    if policy["unranked"]:
        said += f"; {policy['unranked']} tenants are to be ranked anew"
    alive = [each for each in seen["workers"] if each["remaining"] > 0]
    lapsed = len(seen["workers"]) - len(alive)
    slots, holding = (sum(each[name] for each in alive) for name in ("slots", "holding"))
    workers = f"{len(alive)} with {slots} slots, holding {holding} tasks"
    lines = [
        _line("namespace", Text(seen["namespace"], style="bold")),
        _line("leader", leads),
        _line("standbys", Text(_standbys(leader["standbys"]))),
        _line("policy", Text(said)),
        _line("workers", Text(workers + (f"; {lapsed} lapsed" if lapsed else ""))),
        _line("dead", Text(f"{seen['dead']} letters", style="red" if seen["dead"] else "")),
    ]
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return lines


def _standbys(standbys: Sequence[str]) -> str:
    return f"{len(standbys)}: {', '.join(standbys)}" if standbys else "none"


_STORED = ("order_within", "ageing", "max_running", "generation")


def _line(label: str, value: Text) -> Text:
    return Text.assemble(f"{label:<11}", value)


def _table(first: str, *numbers: str) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    table.add_column(first, no_wrap=True, overflow="ellipsis", max_width=32)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _queues(queues: Sequence[Snapshot]) -> Table:
    counts = ("submitted", "delayed", "pending", "dispatched", "running", "workers", "slots")
    table = _table("queue", *counts)
    for each in queues:
        name = Text(each["queue"] + (" (paused)" if each["paused"] else ""))
        idle = not each["workers"] and each["pending"]
        table.add_row(name, *(f"{each[count]}" for count in counts), style="red" if idle else "")
    return table


def _tenants(tenants: Sequence[Snapshot]) -> Table:
    heads = ("weight", "waiting", "running", "share", "due", "p50", "p95", "oldest")
    table = _table("tenant", *heads)
    for each in tenants:
        table.add_row(
            Text(each["tenant"] + (" (paused)" if each["paused"] else "")),
            f"{each['weight']:g}",
            f"{each['waiting']}",
            f"{each['running']}" + (f"/{each['max_running']}" if each["max_running"] else ""),
            _part(each["share"]),
            _part(each["fair"]),
            *(_age(each[name]) for name in ("p50", "p95", "oldest")),
            style="yellow" if _starved(each) else "",
        )
    return table


def _starved(tenant: Snapshot) -> bool:
    share, due = tenant["share"], tenant["fair"]
    waits = (tenant["oldest"] or 0) > LONG and not tenant["paused"]
    return bool(waits and due and share < STARVED * due)


def _part(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _age(ms: float | None) -> str:
    return "-" if ms is None else format_age(max(0.0, ms) / 1000)


def _others(count: int, what: str, or_more: bool = False) -> list[Text]:
    if count <= 0 and not or_more:
        return []
    return [Text(f"({what} not shown: {max(count, 0)}{' or more' if or_more else ''})")]
