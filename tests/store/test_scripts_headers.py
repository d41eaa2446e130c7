"""A script's header is its contract: it is compared with the body, and both with the design."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tq_celery.errors import StoreError
from tq_celery.store.keys import Keys
from tq_celery.store.scripts import _FOLDER, SCRIPTS, Script, call

SOURCES = {
    path.name.removesuffix(".lua"): path.read_text()
    for path in _FOLDER.iterdir()
    if path.name.endswith(".lua")
}
INCLUDES = {
    path.name.removesuffix(".lua"): path.read_text() for path in (_FOLDER / "includes").iterdir()
}
each_script = pytest.mark.parametrize("name", sorted(SOURCES))

#: May run when the server is out of memory, because they shrink what it holds or keep a lease.
ALLOW_OOM = {
    "complete",
    "bury",
    "give_back",
    "renew",
    "withdraw",
    "reclaim",
    "reclaim_orphans",
    "close_obituaries",
    "elect",
    "extend",
    "resign",
    "revoke",
    "remove",
    "close_drained",
}
#: Write under the leader's epoch.
FENCED = {
    "admit", "promote", "dispatch", "rerank", "regroup", "bury_ingress", "bury_delayed", "account",
}  # fmt: skip
#: Commands that only read.
READS = {
    "EXISTS", "GET", "HEXISTS", "HGET", "HGETALL", "HLEN", "HMGET", "HSCAN", "PTTL", "SISMEMBER",
    "SMEMBERS", "SRANDMEMBER", "TIME", "XINFO", "XPENDING", "XRANGE", "ZCARD", "ZRANGE", "ZSCORE",
}  # fmt: skip


def header(name: str) -> list[str]:
    """Return the comment lines at the top, without their dashes."""
    lines = SOURCES[name].splitlines()[1:]
    end = next(i for i, line in enumerate(lines) if not line.startswith("-- "))
    return [line[3:] for line in lines[:end]]


def body(name: str) -> str:
    """Return what follows the include line, without comments."""
    _, _, rest = SOURCES[name].partition("--#include")
    return re.sub(r"--.*", "", rest.partition("\n")[2])


def included(name: str) -> list[str]:
    lines = [x for x in SOURCES[name].splitlines() if x.startswith("--#include ")]
    return [include for line in lines for include in line.split()[1:]]


@each_script
def test_the_header_says_what_goes_in_and_out(name: str) -> None:
    lines = header(name)
    start = lines.index("KEYS[1] prefix of the namespace")
    sentence = " ".join(lines[:start])
    assert sentence[0].isupper()
    assert sentence.endswith("."), "a sentence says what it does"
    *arguments, returns = lines[start + 1 :]
    assert returns.startswith("RETURNS ")
    numbers = [re.match(r"ARGV\[(\d+)(\.\.\.)?\] \S", line) for line in arguments]
    assert all(numbers), arguments
    assert [int(match.group(1)) for match in numbers if match] == list(range(1, len(arguments) + 1))
    assert all(match.group(2) is None for match in numbers[:-1] if match), "only the last repeats"


@each_script
def test_the_body_uses_the_arguments_the_header_names(name: str) -> None:
    arguments = [line for line in header(name) if line.startswith("ARGV[")]
    repeats = bool(arguments) and "..." in arguments[-1].split()[0]
    used = {int(number) for number in re.findall(r"ARGV\[(\d+)\]", body(name))}
    loops = re.findall(r"for i = (\d+), #ARGV", body(name))
    fixed = len(arguments) - repeats
    named = set(range(1, fixed + 1))
    assert named <= used, f"named and not used: {sorted(named - used)}"
    assert all(number <= len(arguments) for number in used)
    assert bool(loops) == repeats
    # A loop over pairs may look at their second half on its own.
    assert all(int(start) in (fixed + 1, fixed + 2) for start in loops)
    assert "KEYS[" not in body(name), "keys are derived in one include"


@each_script
def test_every_word_it_returns_is_in_its_header(name: str) -> None:
    returns = header(name)[-1]
    text = body(name)
    words = set(re.findall(r"return (?:refuse\()?\{? ?'([a-z]+)'", text))
    words |= (
        set(re.findall(r"return \{ known and '(\w+)' or '(\w+)'", text).pop())
        if ("return { known and" in text)
        else set()
    )
    announced = set(re.findall(r"'([a-z]+)'", returns))
    assert words == announced
    assert ("-1" in returns) == bool(re.search(r"(return|or) -1", text))
    assert ("TQFENCED" in returns) == ("fence" in included(name))


def test_leaders_write_under_the_fence_and_nobody_else() -> None:
    assert {name for name in SOURCES if "fence" in included(name)} == FENCED


@pytest.mark.parametrize("name", sorted(FENCED))
def test_the_fence_comes_before_the_first_write(name: str) -> None:
    before, found, _ = body(name).partition("if refusal then return refusal end")
    assert found
    assert "redis.call" not in before


@each_script
def test_flags_say_what_may_happen_without_memory(name: str) -> None:
    shebang = SOURCES[name].splitlines()[0]
    flags = set(shebang.partition("flags=")[2].split(",")) - {""}
    assert shebang.startswith("#!lua")
    assert ("allow-oom" in flags) == (name in ALLOW_OOM)
    commands = set(re.findall(r"redis\.p?call\('([A-Z]+)'", SCRIPTS[name].text))
    assert ("no-writes" in flags) == (commands <= READS)


def test_every_include_exists_and_is_used() -> None:
    assert {include for name in SOURCES for include in included(name)} == set(INCLUDES)


@each_script
def test_keys_come_first_and_no_include_comes_twice(name: str) -> None:
    assert included(name)[0] == "keys"
    assert len(included(name)) == len(set(included(name)))


@each_script
def test_each_line_knows_where_it_comes_from(name: str) -> None:
    script = SCRIPTS[name]
    lines = script.text.splitlines()
    assert len(lines) == len(script.lines)
    for line, origin in zip(lines, script.lines, strict=True):
        file, _, number = origin.partition(":")
        source = SOURCES.get(file.removesuffix(".lua")) or INCLUDES[file[9:].removesuffix(".lua")]
        assert source.splitlines()[int(number) - 1] == line


@each_script
def test_the_server_accepts_it(client: Any, name: str) -> None:
    """Also with a `local` too many: Lua allows 200 of them, and includes add up."""
    assert client.script_load(SCRIPTS[name].text) == SCRIPTS[name].sha


def test_an_error_names_the_line_of_the_step_that_failed(client: Any, namespace: str) -> None:
    keys = Keys(namespace)
    client.set(keys.name("delayed"), "not a sorted set")
    with pytest.raises(StoreError, match=r"due: .*\(lua/due\.lua:\d+\)"):
        call(client, SCRIPTS["due"], keys.prefix, [5])
    client.set(keys.name("config"), "not a hash")
    with pytest.raises(StoreError, match=r"\(lua/includes/context\.lua:\d+\)"):
        call(client, SCRIPTS["dispatch"], keys.prefix, [1, 1, 1, "q"])
    client.delete(keys.name("delayed"), keys.name("config"))


COUNT = Script("count", "return redis.call('INCR', KEYS[1] .. ARGV[1])\n", "", ("count.lua:1",))


def test_a_call_survives_a_flush_and_runs_once(make_server: Any, namespace: str) -> None:
    """A script that the server has forgotten is sent again (Openpanel-dev/groupmq #16)."""
    import hashlib

    script = Script(
        COUNT.name, COUNT.text, hashlib.sha1(COUNT.text.encode()).hexdigest(), COUNT.lines
    )
    for kind in ("valkey", "redis"):
        client = make_server(kind).client()
        prefix = Keys(namespace).prefix
        for round_ in range(1, 4):
            client.script_flush()
            assert call(client, script, prefix, ["c"]) == round_
        client.close()
