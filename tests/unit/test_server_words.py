"""What a server answers while it can do nothing for us is told from a fault of ours."""

from __future__ import annotations

import pytest
import redis

from tq_celery.errors import StoreError, StoreUnavailableError
from tq_celery.store.inspect import reading
from tq_celery.store.scripts import SCRIPTS, translate

PIPELINED = "Command # 1 (ZRANGE tq:{n}:workers 0 -1 (x)) of pipeline caused error: "
BUSY = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
UNBLOCKED = "UNBLOCKED force unblock from blocking operation, instance state changed"


@pytest.mark.parametrize("before", ["", PIPELINED])
@pytest.mark.parametrize(
    ("text", "word"),
    [
        (BUSY, "BUSY"),
        ("MISCONF Redis is configured to save RDB snapshots", "MISCONF"),
        ("NOREPLICAS Not enough good replicas to write.", "NOREPLICAS"),
        (UNBLOCKED, "UNBLOCKED"),
    ],
)
def test_a_server_that_cannot_now(before: str, text: str, word: str) -> None:
    """Seen to fail: a pipeline's BUSY and a demoted server's UNBLOCKED were logged with a traceback
    every second, as an unknown error is.
    """
    error = translate(SCRIPTS["renew"], redis.ResponseError(before + text))
    assert isinstance(error, StoreUnavailableError)
    assert error.refusal == word
    assert text in str(error)


@pytest.mark.parametrize("before", ["", PIPELINED])
def test_a_look_at_a_server_that_cannot_now(before: str) -> None:
    """Seen to fail: the scheduler's accounts had a traceback for it, unlike its other loops."""
    with pytest.raises(StoreUnavailableError, match="BUSY") as raised, reading("account"):
        raise redis.ResponseError(before + BUSY)
    assert raised.value.refusal == "BUSY"
    with pytest.raises(StoreUnavailableError, match="account: LOADING"), reading("account"):
        raise redis.exceptions.BusyLoadingError("the dataset in memory")
    with pytest.raises(StoreError, match="WRONGTYPE") as unknown, reading("account"):
        raise redis.ResponseError("WRONGTYPE Operation against a key")
    assert type(unknown.value) is StoreError


def test_an_error_that_only_speaks_of_such_a_word() -> None:
    error = translate(SCRIPTS["renew"], redis.ResponseError(f"ERR key is BUSY ({PIPELINED[:9]})"))
    assert type(error) is StoreError
