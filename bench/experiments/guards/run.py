"""One run of one guard, with it or without it, on a namespace of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import count

from bench.experiments.guards.account import Guard, Shown
from bench.experiments.guards.leaders import fence, ingress, trust_window
from bench.experiments.guards.stage import Stage
from bench.experiments.guards.workers import acknowledgement, token
from bench.harness.servers import RedisServer

__all__ = ["run"]

_RUNS: Mapping[str, Callable[..., Shown]] = {
    "fence": fence,
    "trust-window": trust_window,
    "ingress-read": partial(ingress, when="read"),
    "ingress-later": partial(ingress, when="later"),
    "token": token,
    "ack-later": partial(acknowledgement, when="later"),
    "ack-first": partial(acknowledgement, when="first"),
}
_numbers = count(1)


def run(guard: Guard, server: RedisServer, *, removed: bool) -> Shown:
    """Run the guard's scene; raises BenchError when it cannot be set or does not end."""
    word = "without" if removed else "with"
    with Stage(server, f"guards-{guard.name}-{word}-{next(_numbers)}") as stage:
        return _RUNS[guard.name](stage, removed=removed)
