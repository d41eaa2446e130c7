"""The Lua scripts: assembled once, called by digest, reloaded when the server forgot them.

A script is one file in ``lua/``: a shebang with its flags, one sentence, its contract (``KEYS``,
``ARGV``, ``RETURNS``), then ``--#include`` lines that name shared steps in ``lua/includes/``. An
error names the file and line of the step that failed, not the line of the assembled text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from time import perf_counter
from typing import Any

import redis
from redis.exceptions import AskError, InvalidResponse, NoScriptError, ResponseError
from redis.sentinel import MasterNotFoundError

from tq_celery.errors import FencedError, StoreError, StoreUnavailableError, TQError
from tq_celery.store.client import close_idle
from tq_celery.store.script_times import SCRIPT_TIMES

__all__ = ["SCRIPTS", "Script", "call", "refused", "said", "translate"]

_FOLDER = files("tq_celery.store") / "lua"
_LINE = re.compile(r"user_script:(\d+)")
#: A Sentinel within redis-py's account of its client.
_SENTINEL = re.compile(r"\bhost=([^,()]+),port=(\d+)")
#: First words of server errors that pass by themselves; a server that becomes a replica ends the
#: reads that block on it with UNBLOCKED.
_PASSING = (
    "LOADING", "READONLY", "OOM", "MISCONF", "BUSY", "MASTERDOWN", "NOREPLICAS", "TRYAGAIN",
    "UNBLOCKED",
)  # fmt: skip
#: What redis-py puts before the answer to one command of a pipeline.
_PIPELINED = " of pipeline caused error: "
#: Errors from which redis-py takes that word away.
_WORDLESS = {
    redis.exceptions.BusyLoadingError: "LOADING",
    redis.exceptions.ReadOnlyError: "READONLY",
    redis.exceptions.OutOfMemoryError: "OOM",
    redis.exceptions.MasterDownError: "MASTERDOWN",
    redis.exceptions.TryAgainError: "TRYAGAIN",
    redis.exceptions.ClusterDownError: "CLUSTERDOWN",
    redis.exceptions.AuthenticationError: "AUTH",
}


@dataclass(frozen=True, slots=True)
class Script:
    """An assembled script; ``lines[i]`` is where line ``i + 1`` of ``text`` comes from."""

    name: str
    text: str
    sha: str
    lines: tuple[str, ...]


def _assemble(name: str, source: str) -> Script:
    """Return the script with its includes in place of the ``--#include`` line."""
    text: list[str] = []
    origin: list[str] = []

    def add(file: str, body: str) -> None:
        for number, line in enumerate(body.splitlines(), 1):
            if line.startswith("--#include "):
                for include in line.split()[1:]:
                    path = _FOLDER / "includes" / f"{include}.lua"
                    add(f"includes/{include}.lua", path.read_text())
            else:
                text.append(line)
                origin.append(f"{file}:{number}")

    add(f"{name}.lua", source)
    joined = "\n".join(text) + "\n"
    return Script(
        name,
        joined,
        hashlib.sha1(joined.encode(), usedforsecurity=False).hexdigest(),
        tuple(origin),
    )


SCRIPTS: dict[str, Script] = {
    path.name.removesuffix(".lua"): _assemble(path.name.removesuffix(".lua"), path.read_text())
    for path in _FOLDER.iterdir()
    if path.name.endswith(".lua")
}


def said(error: Exception) -> str:
    """Return what a server's error says, in a whole sentence where redis-py keeps a number."""
    if isinstance(error, AskError):  # and MovedError: "3432 10.0.0.2:6379"
        return (
            "the server is a node of a Redis Cluster and the namespace is on another one; "
            "a cluster of several nodes is not supported"
        )
    if isinstance(error, MasterNotFoundError):
        # redis-py adds each client that failed, with all its arguments
        text = str(error)
        silent = ", ".join(f"{host}:{port}" for host, port in _SENTINEL.findall(text))
        return text.partition(" : ")[0] + (f"; no answer from {silent}" if silent else "")
    if isinstance(error, InvalidResponse):
        return f"what listens there is no Redis or Valkey: {error}"
    return str(error)


def translate(script: Script, error: Exception, epoch: int = 0) -> Exception:
    """Return our error for a server's or connection's, with the operation and the source line."""
    if unavailable := refused(script.name, error):
        return unavailable
    text = said(error)
    if isinstance(error, ResponseError):
        word, _, rest = text.partition(" ")
        if word == "TQFENCED":
            return FencedError(epoch, int(rest.split()[0]))
        at = _LINE.search(text)
        if at and int(at.group(1)) <= len(script.lines):
            text = f"{text} (lua/{script.lines[int(at.group(1)) - 1]})"
        return StoreError(script.name, text)
    return StoreUnavailableError(script.name, text or type(error).__name__)


def refused(operation: str, error: Exception) -> StoreUnavailableError | None:
    """Return our error for the answer of a server that can do nothing for now, None for others."""
    refusal, text = _refusal(error), said(error)
    if not refusal:
        return None
    shown = text if text.startswith(refusal) else f"{refusal} {text}"
    return StoreUnavailableError(operation, shown, refusal=refusal)


def _refusal(error: Exception) -> str:
    """Return the word of a server that answers, and does nothing for now; else an empty text."""
    for kind, word in _WORDLESS.items():
        if isinstance(error, kind):
            return word
    if isinstance(error, ResponseError):
        text = str(error).rpartition(_PIPELINED)[2]
        return next((word for word in _PASSING if text.startswith(word)), "")
    return ""


def call(
    client: redis.Redis, script: Script, prefix: str, args: Sequence[Any], epoch: int = 0
) -> Any:
    """Run ``script`` once; loads it and repeats once when the server does not know it.

    Raises FencedError, StoreUnavailableError or StoreError with the server's error as cause.
    """
    if not SCRIPT_TIMES.on:
        return _call(client, script, prefix, args, epoch)
    began = perf_counter()
    try:
        reply = _call(client, script, prefix, args, epoch)
    except TQError as error:
        SCRIPT_TIMES.add(script.name, perf_counter() - began, error)
        raise
    SCRIPT_TIMES.add(script.name, perf_counter() - began)
    return reply


def _call(client: redis.Redis, script: Script, prefix: str, args: Sequence[Any], epoch: int) -> Any:
    execute: Callable[..., Any] = client.execute_command
    try:
        try:
            return execute("EVALSHA", script.sha, 1, prefix, *args)
        except NoScriptError:
            return execute("EVAL", script.text, 1, prefix, *args)
    except (redis.RedisError, OSError) as error:
        close_idle(client, error)
        raise translate(script, error, epoch) from error
