"""What the server answers is understood by both parsers, from both servers, odd entries included.

redis/redis-py #2226: recovery broke on replies of a shape that its author had not met. Here every
client speaks RESP2 and takes bytes, whatever the URL says, so the shapes that are left are those of
the servers (Redis 7 and Valkey) and of the two parsers, hiredis and the one in pure Python.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.store.contract.steps import NO_LIMITS, admit_all, announce, task
from tq_celery.errors import SettingsError
from tq_celery.settings import Settings
from tq_celery.store.client import connect
from tq_celery.store.keys import GROUP
from tq_celery.store.redis_store import RedisStore
from tq_celery.store.split_read import SplitRead

ROOT = Path(__file__).resolve().parents[2]

#: Starts pytest in a process whose redis-py finds no hiredis.
WITHOUT_HIREDIS = """
import sys
sys.modules["hiredis"] = None
import pytest, redis.utils
assert not redis.utils.HIREDIS_AVAILABLE
sys.exit(pytest.main(sys.argv[1:]))
"""


@pytest.mark.parametrize("blocking", [0.0, 1.0])
@pytest.mark.parametrize("url", ["redis://h/1", "unix:///s", "sentinel://h/m", "rediss://h"])
def test_every_client_pins_protocol_and_bytes(url: str, blocking: float) -> None:
    options = connect(url, blocking=blocking).connection_pool.connection_kwargs
    assert options["protocol"] == 2
    assert options["decode_responses"] is False


@pytest.mark.parametrize("option", ["protocol=3", "decode_responses=true"])
def test_a_url_cannot_change_the_shape_of_replies(option: str) -> None:
    with pytest.raises(SettingsError):
        connect(f"redis://h/0?{option}")


def test_deleted_entries_in_the_hands_of_a_worker(store: RedisStore) -> None:
    """The server lists a deleted entry with a nil body, or not at all; the others are found."""
    settings = Settings(url=store.settings.url, namespace=store.keys.namespace)
    store.seed(settings)
    for name in "abcd":
        store.submit(task(name, queue="q"), NO_LIMITS)
    admit_all(store)
    assert store.dispatch(1, ["q"], 10, 10).count == 4
    split = SplitRead(store, settings)
    try:
        store.renew(announce("w", "q"), 60_000)
        split.start("w", ["q"], 4, 1000)
        assert split.finish() == [], "there was no group, and now there is"
        split.start("w", ["q"], 4, 1000)
        got = split.finish()
        assert [each.payload for each in got] == [b"payload of " + n.encode() for n in "abcd"]
        exec_ = store.keys.of_queue("exec", "q")
        store.client.xdel(exec_, got[1].token.entry, got[3].token.entry)
        found = split.handed_out("w", ["q"])
        assert [each.token.entry for each in found] == [got[0].token.entry, got[2].token.entry]
        store.withdraw("w")
        assert not store.client.xpending(exec_, GROUP)["pending"]
        assert store.client.xlen(exec_) == 0
        assert store.dispatch(1, ["q"], 10, 10).count == 4, "their run records brought all back"
    finally:
        split.close()


@pytest.mark.slow
def test_the_contract_holds_without_hiredis() -> None:
    """The store's whole contract on both servers, with the parser in pure Python."""
    done = subprocess.run(
        [
            sys.executable, "-c", WITHOUT_HIREDIS, "-q", "-p", "no:cacheprovider",
            "tests/store/contract/test_work.py", "tests/store/contract/test_lead.py",
            "tests/store/contract/test_submit.py", "tests/store/contract/test_switch.py",
            "-k", "not memory",
        ],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=170,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
