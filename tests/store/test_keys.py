"""Python and Lua derive the same key names, whatever bytes queues and tenants hold."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tq_celery.store import keys as module
from tq_celery.store.keys import Keys

LUA = files("tq_celery.store") / "lua"
INCLUDE = (LUA / "includes" / "keys.lua").read_text()
NAMES = (
    "\nreturn { key(ARGV[1]), queue_key(ARGV[2], ARGV[3]), tenant_key(ARGV[2], ARGV[3], ARGV[4]) }"
)

words = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)
queues = st.text(min_size=1, max_size=40)
tenants = st.binary(max_size=256)
namespaces = st.text(
    st.characters(blacklist_characters="{}", blacklist_categories=("Cs", "Cc")), min_size=1
)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(namespace=namespaces, word=words, of=words, queue=queues, tenant=tenants)
def test_lua_names_the_same_keys(
    client: Any, namespace: str, word: str, of: str, queue: str, tenant: bytes
) -> None:
    keys = Keys(namespace)
    named = client.eval(INCLUDE + NAMES, 1, keys.prefix, word, of, queue, tenant)
    assert named == [
        keys.name(word).encode(),
        keys.of_queue(of, queue).encode(),
        keys.of_tenant(of, queue, tenant),
    ]


@given(queues, tenants, queues, tenants)
def test_two_tenants_never_share_a_key(q1: str, t1: bytes, q2: str, t2: bytes) -> None:
    """Not even when queue and tenant contain the separator."""
    assume((q1, t1) != (q2, t2))
    keys = Keys("n")
    assert keys.of_tenant("pending", q1, t1) != keys.of_tenant("pending", q2, t2)


@given(namespaces, words, queues, tenants)
def test_a_namespace_is_one_cluster_slot(
    namespace: str, word: str, queue: str, tenant: bytes
) -> None:
    """The hash tag is what stands between the first braces."""
    keys = Keys(namespace)
    tag = b"{" + namespace.encode() + b"}"
    for name in (
        keys.name(word).encode(),
        keys.of_queue(word, queue).encode(),
        keys.of_tenant(word, queue, tenant),
    ):
        assert name.startswith(b"tq:" + tag + b":")
        assert name.find(b"{") == 3
        assert name.find(b"}") == 3 + len(tag) - 1


def test_every_key_that_a_script_names_is_in_the_table() -> None:
    """The table in keys.py is the only list of keys; a script may not have one of its own."""
    table = module.__doc__ or ""
    listed = {
        word.partition(":")[0] if not word.startswith("done") else word
        for row in table.splitlines()
        for word in re.split(r",\s*", row[:28].strip())
        if word and not word.startswith("=")
    }
    used: dict[str, str] = {}
    for folder in (LUA, LUA / "includes"):
        for path in folder.iterdir():
            if path.name.endswith(".lua"):
                for word in re.findall(r"(?:queue_|tenant_)?key\('([^']+)'", path.read_text()):
                    used[word] = path.name
    assert used, "the pattern finds the keys"
    missing = {word: where for word, where in used.items() if word not in listed}
    assert not missing


@pytest.mark.parametrize("word", ["pending", "outdated"])
def test_the_length_stands_before_the_queue(word: str) -> None:
    assert Keys("n").of_tenant(word, "é:1", b"t") == f"tq:{{n}}:{word}:4:é:1:t".encode()
