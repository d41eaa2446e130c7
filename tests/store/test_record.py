"""Python and Lua agree on every byte of a record, a run record and a delayed member."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tq_celery.store.contract import Token
from tq_celery.store.record import (
    ARRIVAL,
    MAX_SCORE,
    RECORD,
    RECORD_LUA,
    Record,
    TaskKey,
    arrival,
    arrive_due,
    pack_delayed,
    pack_record,
    replace_admitted,
    split_place,
    split_stored,
    unpack_delayed,
    unpack_record,
)
from tq_celery.store.scripts import _FOLDER

#: What a script sees of a record: every field as text, and the rest of the bytes.
UNPACK = f"""
local r = {{ struct.unpack('{RECORD_LUA}', ARGV[1]) }}
return {{ string.format('%.0f', r[1]), string.format('%.0f', r[2]), string.format('%.17g', r[3]),
  string.format('%.0f', r[4]), string.format('%.0f', r[5]), string.format('%.0f', r[6]),
  string.format('%.0f', r[7]), string.format('%.0f', r[8]), string.format('%.0f', r[9]),
  string.sub(ARGV[1], r[10]) }}
"""
PACK = f"""
return struct.pack('{RECORD_LUA}', tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]),
  tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]),
  tonumber(ARGV[9])) .. ARGV[10]
"""
#: The offsets that scripts use without unpacking.
OFFSETS = """
return { string.sub(ARGV[1], 1, 12), string.sub(ARGV[1], 13, 20), string.sub(ARGV[1], 21, 21),
  string.sub(ARGV[1], 38, 45), string.sub(ARGV[1], 46, 47), string.sub(ARGV[1], 48, 48),
  string.sub(ARGV[1], 49) }
"""

moments = st.integers(0, MAX_SCORE)
records = st.builds(
    Record,
    ms=moments,
    seq=st.integers(0, 2**32 - 1),
    cost=st.floats(1e-6, 1e9),
    priority=st.integers(0, 255),
    deadline=moments,
    submitted=moments,
    admitted=moments,
    attempts=st.integers(0, 65_535),
    paid=st.integers(0, 1),
    key=st.binary(max_size=60),
)
quick = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@given(records)
def test_a_record_survives_packing(record: Record) -> None:
    raw = pack_record(record)
    assert unpack_record(raw) == record
    assert len(raw) == 48 + len(record.key) == RECORD.size + len(record.key)


@quick
@given(record=records)
def test_lua_reads_and_writes_the_same_bytes(client: Any, record: Record) -> None:
    raw = pack_record(record)
    *numbers, key = client.eval(UNPACK, 0, raw)
    values = [
        record.ms,
        record.seq,
        record.cost,
        record.priority,
        record.deadline,
        record.submitted,
        record.admitted,
        record.attempts,
        record.paid,
    ]
    assert [float(number) for number in numbers] == values
    assert key == record.key
    assert client.eval(PACK, 0, *numbers, key) == raw


@quick
@given(record=records)
def test_lua_cuts_a_record_where_its_fields_are(client: Any, record: Record) -> None:
    raw = pack_record(record)
    start, cost, priority, admitted, attempts, paid, key = client.eval(OFFSETS, 0, raw)
    assert start == ARRIVAL.pack(record.ms, record.seq)
    assert cost == raw[12:20]
    assert priority == bytes([record.priority])
    assert int.from_bytes(admitted, "big") == record.admitted
    assert int.from_bytes(attempts, "big") == record.attempts
    assert paid == bytes([record.paid])
    assert key == record.key


@given(records, records)
def test_records_sort_by_arrival(one: Record, other: Record) -> None:
    first, second = map(unpack_record, sorted((pack_record(one), pack_record(other))))
    assert (first.ms, first.seq) <= (second.ms, second.seq)


@given(records, moments)
def test_admission_is_stamped_in_place(record: Record, ms: int) -> None:
    stamped = unpack_record(replace_admitted(pack_record(record), ms))
    assert stamped == replace(record, admitted=ms)


@given(records, moments)
def test_a_delayed_task_arrives_when_it_is_due(record: Record, due: int) -> None:
    raw = pack_record(record)
    arrived = unpack_record(arrive_due(raw, due))
    if record.ms == record.seq == 0:
        assert (arrived.ms, arrived.seq) == (due, 255 - record.priority)
    else:
        assert arrived == record, "work that was given back keeps its arrival"


@given(
    queue=st.text(min_size=1, max_size=30),
    tenant=st.binary(max_size=256),
    record=records,
)
def test_a_delayed_member_keeps_its_parts_apart(queue: str, tenant: bytes, record: Record) -> None:
    member = pack_delayed(queue, tenant, pack_record(record))
    assert unpack_delayed(member) == (queue, tenant, pack_record(record))
    assert member[0] == 255 - record.priority


@given(st.text(), *[st.integers(0, 10**9)] * 3)
def test_a_task_key_survives_any_id(id: str, nesting: int, retries: int, generation: int) -> None:
    key = TaskKey(id, nesting, retries, generation)
    assert TaskKey.decode(key.encode()) == key


@pytest.mark.parametrize("raw", [b"", b"1.2.3", b"a.b.c.d", b"1..3.x", b"\xff.0.0.x"])
def test_what_is_no_key_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError):
        TaskKey.decode(raw)


@given(st.text(), st.integers(0, 2**53), st.integers(0, 2**53), st.integers(0, 2**32))
def test_a_token_survives_its_header(queue: str, epoch: int, ms: int, seq: int) -> None:
    token = Token(queue, b"%d-%d" % (ms, seq), epoch)
    assert Token.decode(token.encode()) == token


@given(st.integers(0, 2**53 - 1), st.integers(0, 2**32 - 1))
def test_an_entry_id_is_an_arrival(ms: int, seq: int) -> None:
    assert arrival(b"%d-%d" % (ms, seq)) == ARRIVAL.pack(ms, seq)


@given(
    digest=st.binary(min_size=16, max_size=16),
    message=st.binary(max_size=200),
    queue=st.text(max_size=30),
    tenant=st.binary(max_size=256),
    at=moments,
)
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_the_place_of_a_stored_message_is_split_off_on_both_sides(
    client: Any, digest: bytes, message: bytes, queue: str, tenant: bytes, at: int
) -> None:
    """What Lua writes behind a message, Python and Lua take off again, whatever the bytes."""
    include = (_FOLDER / "includes" / "place.lua").read_text()
    script = include + (
        "local stored = with_place(ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]))\n"
        "return { stored, string.sub(stored, length_of_message(stored) + 1) }"
    )
    stored, place = client.eval(script, 0, digest + message, queue, tenant, at)
    assert split_stored(stored) == (digest, message)
    assert split_place(place) == (queue, tenant, at)


@given(st.binary(max_size=80))
def test_bytes_of_somebody_else_are_a_message_of_some_kind(raw: bytes) -> None:
    digest, message = split_stored(raw)
    assert raw.startswith(digest + (message or b""))
