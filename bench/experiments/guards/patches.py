"""The library's scripts with one guard taken out; made here from its text, and used here only.

Each patch replaces text that has to be there exactly once in each script it names: a guard that
looks different from what is expected is an error, never a run that removes nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace

from bench.harness.errors import BenchError
from tq_celery.store.scripts import SCRIPTS, Script

__all__ = ["ACK", "PATCHES", "Change", "install", "patched"]

#: Text of a script and what takes its place.
Change = tuple[str, str]

_ENDS = """    count('dispatched', queue, -#entries)
    redis.call('HDEL', queue_key('running', queue), unpack(entries))
    redis.call('XACK', queue_key('exec', queue), 'workers', unpack(entries))
    redis.call('XDEL', queue_key('exec', queue), unpack(entries))
    redis.call('HDEL', queue_key('superseded', queue), unpack(entries))
"""
_REMOVES = """redis.call('XDEL', key('ingress'), unpack(ids))
redis.call('SET', key('cursor'), ids[moved])
"""
_FORGETS = "redis.call('HDEL', queue_key('running', queue), entry)\n"
_KEEPS = """redis.call('HSET', queue_key('kept', queue), entry,
    redis.call('HGET', queue_key('running', queue), entry))
"""
_FINDS = "of_queue[entries[j]] = raw[j]"
_FINDS_KEPT = f"{_FINDS} or redis.call('HGET', queue_key('kept', queue), entries[j])"
#: Scripts that a leader writes with.
_FENCED = (
    "admit", "promote", "dispatch", "rerank", "regroup", "account", "bury_ingress", "bury_delayed",
)  # fmt: skip

#: By name: what is changed in which script.
PATCHES: Mapping[str, Mapping[str, tuple[Change, ...]]] = {
    # a superseded epoch is not refused
    "unfenced": dict.fromkeys(_FENCED, (("if epoch < fence then", "if false then"),)),
    # what is admitted stays in ingress; to remove it is another call
    "admit apart": {"admit": ((_REMOVES, ""),)},
    # a token counts although its delivery was taken back
    "any token": {
        "reclaim": ((_FORGETS, _KEEPS + _FORGETS),),
        "complete": ((_FINDS, _FINDS_KEPT),),
    },
    # the outcome is recorded; to acknowledge the delivery is another call
    "ack apart": {
        "complete": (
            (_ENDS, ""),
            ("redis.call('HDEL', key('payload'), unpack(payloads))\n", ""),
            ("    tally('running', run.tenant, -1)\n", ""),
        ),
    },
}

#: Acknowledges deliveries and nothing else; ARGV: queue, tenant, then entries.
ACK = """#!lua
local prefix, queue, tenant = KEYS[1], ARGV[1], ARGV[2]
for i = 3, #ARGV do
  redis.call('HDEL', prefix .. 'running:' .. queue, ARGV[i])
  redis.call('XACK', prefix .. 'exec:' .. queue, 'workers', ARGV[i])
  redis.call('XDEL', prefix .. 'exec:' .. queue, ARGV[i])
  redis.call('HINCRBY', prefix .. 'counters', 'dispatched:' .. queue, -1)
  redis.call('HINCRBY', prefix .. 'running', tenant, -1)
end
return #ARGV - 2
"""


def patched(script: Script, changes: Iterable[Change]) -> Script:
    """Return ``script`` with each change; raises BenchError when a text is not there just once."""
    text = script.text
    for old, new in changes:
        if text.count(old) != 1:
            raise BenchError(f"script {script.name} does not look as expected: {old!r}")
        text = text.replace(old, new)
    return replace(script, text=text, sha=hashlib.sha1(text.encode()).hexdigest())


def install(name: str) -> None:
    """Use a patch in this process from now on; a process of the experiment is its own."""
    for script, changes in PATCHES[name].items():
        SCRIPTS[script] = patched(SCRIPTS[script], changes)
