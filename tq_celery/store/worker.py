"""The worker's side of the Redis store: read, renew, settle, give back, bury, obituaries."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import redis

from tq_celery.states import Outcome
from tq_celery.store.announcement import WorkerAnnouncement, announced_as
from tq_celery.store.base import LONGEST_BLOCK, RedisPart, chunks
from tq_celery.store.contract import (
    MAX_BATCH,
    Delivery,
    Obituary,
    RenewReply,
    Return,
    Settlement,
    Token,
)
from tq_celery.store.keys import GROUP
from tq_celery.store.marks import revoked_among
from tq_celery.store.record import DELIVERY, split_stored, split_taken

__all__ = ["RedisWorker"]


class RedisWorker(RedisPart):
    """Implements :class:`~tq_celery.store.contract.WorkerStore`."""

    def renew(self, announcement: WorkerAnnouncement, lease: int) -> RenewReply:
        offer = announced_as(announcement)
        status, seconds, micros = self._call("renew", announcement.worker, lease, offer)
        return RenewReply(status.decode(), int(seconds) * 1000 + int(micros) / 1000)

    def withdraw(self, worker: str) -> None:
        while (
            self._call("withdraw", worker, *self._limits, self._dead_maxlen, MAX_BATCH) >= MAX_BATCH
        ):
            pass

    # -- reading -------------------------------------------------------------------------------

    def read(self, worker: str, rooms: Mapping[str, int], timeout: int) -> list[Delivery]:
        wanted = {queue: room for queue, room in rooms.items() if room > 0}
        if not wanted:
            return []
        try:
            if len(wanted) == 1:
                entries = self._read_group(worker, wanted, max(wanted.values()), timeout)
            else:
                # COUNT is per stream, so each stream is asked for its own room
                entries = []
                for queue, room in wanted.items():
                    entries += self._read_group(worker, {queue: room}, room, 0)
                if not entries and timeout > 0:
                    entries = self._read_group(worker, wanted, 1, timeout)
            return self._with_payloads(entries)
        except (redis.RedisError, OSError) as error:
            raise self._wrap("renew", error) from error

    def _read_group(
        self, worker: str, queues: Mapping[str, int], count: int, timeout: int
    ) -> list[tuple[str, bytes, Mapping[bytes, bytes]]]:
        streams: dict[Any, Any] = {self.keys.of_queue("exec", queue): ">" for queue in queues}
        try:
            reply: Any = (self.blocking if timeout > 0 else self.client).xreadgroup(
                GROUP,
                worker,
                streams,
                count=count,
                block=max(1, min(timeout, LONGEST_BLOCK)) if timeout > 0 else None,
            )
        except redis.ResponseError as error:
            if not _group_is_gone(error):
                raise
            self._create_groups("exec", queues)
            reply = self.client.xreadgroup(GROUP, worker, streams, count=count)
        cut = len(self.keys.of_queue("exec", "").encode())
        return [
            (stream[cut:].decode(), entry, fields)
            for stream, entries in reply or ()
            for entry, fields in entries
        ]

    def _with_payloads(
        self, entries: Sequence[tuple[str, bytes, Mapping[bytes, bytes]]]
    ) -> list[Delivery]:
        """Return the deliveries with their payloads and marks, fetched in one round trip.

        Only while something is marked as revoked is a second one needed.
        """
        if not entries:
            return []
        heads: list[tuple[Token, bytes, int]] = []
        for queue, entry, fields in entries:
            raw = (fields or {}).get(b"d", b"")
            try:
                epoch, attempts = DELIVERY.unpack_from(raw)
                heads.append((Token(queue, entry, epoch), raw[DELIVERY.size :], attempts))
            except struct.error:
                heads.append((Token(queue, entry, 0), b"", 0))
        pipe: Any = self.client.pipeline(transaction=False)
        pipe.execute_command("HMGET", self.keys.name("payload"), *[key for _, key, _ in heads])
        pipe.execute_command("EXISTS", *map(self.keys.name, ("revoked", "revoked_stamps")))
        stored, marks = pipe.execute()
        messages = [split_taken(value) for value in stored]
        revoked = [False] * len(heads)
        if marks:
            asked = [(token, key) for token, key, _ in heads]
            texts = [text for _, text, _ in messages]
            revoked = revoked_among(self.client, self.keys, asked, texts)
        return [
            Delivery(token, key, attempts, payload, digest, mark, since)
            for (token, key, attempts), (digest, payload, since), mark in zip(
                heads, messages, revoked, strict=True
            )
        ]

    def _create_groups(self, word: str, queues: Mapping[str, int] | Sequence[str]) -> None:
        """Create the group from the start of the stream: settled entries are deleted anyway."""
        for queue in queues:
            try:
                self.client.xgroup_create(
                    self.keys.of_queue(word, queue), GROUP, id="0", mkstream=True
                )
            except redis.ResponseError as error:
                if "BUSYGROUP" not in str(error):
                    raise

    def read_obituaries(self, worker: str, queues: Sequence[str]) -> list[Obituary]:
        if not queues:
            return []
        streams: dict[Any, Any] = {self.keys.of_queue("obituary", q): ">" for q in queues}
        try:
            try:
                reply: Any = self.client.xreadgroup(GROUP, worker, streams, count=32)
            except redis.ResponseError as error:
                if not _group_is_gone(error):
                    raise
                self._create_groups("obituary", queues)
                reply = self.client.xreadgroup(GROUP, worker, streams, count=32)
            cut = len(self.keys.of_queue("obituary", "").encode())
            found = [
                (stream[cut:].decode(), entry, fields)
                for stream, entries in reply or ()
                for entry, fields in entries
            ]
            if not found:
                return []
            stored: Any = self.client.hmget(
                self.keys.name("payload"), [fields.get(b"k", b"") for _, _, fields in found]
            )
        except (redis.RedisError, OSError) as error:
            raise self._wrap("close_obituaries", error) from error
        return [
            Obituary(
                queue,
                entry,
                fields.get(b"k", b""),
                Outcome(fields.get(b"o", b"dead").decode()),
                fields.get(b"r", b"").decode(errors="replace"),
                split_stored(value)[1],
            )
            for (queue, entry, fields), value in zip(found, stored, strict=True)
        ]

    # -- settling ------------------------------------------------------------------------------

    def complete(self, worker: str, items: Sequence[Settlement]) -> list[bool]:
        replies: list[bool] = []
        for chunk in chunks(items):
            args: list[Any] = []
            for item in chunk:
                args += item.token
                args += (item.outcome.value, item.digest, item.started, item.finished)
            replies += map(bool, self._call("complete", worker, *self._limits, *args))
        return replies

    def give_back(self, items: Sequence[Return], budget: int) -> list[bool]:
        replies: list[bool] = []
        for chunk in chunks(items):
            args: list[Any] = []
            for item in chunk:
                args += item.token
                args += (int(item.counted), item.delay)
            replies += map(
                bool, self._call("give_back", budget, *self._limits, self._dead_maxlen, *args)
            )
        return replies

    def bury(self, worker: str, token: Token, reason: str) -> bool:
        return bool(self._call("bury", worker, *self._limits, self._dead_maxlen, *token, reason))

    def close_obituaries(self, items: Sequence[Obituary]) -> None:
        args = [part for item in items for part in (item.queue, item.entry, item.key)]
        if args:
            self._call("close_obituaries", *args)


def _group_is_gone(error: redis.ResponseError) -> bool:
    """True for a flushed or deleted stream, seen before or while blocking."""
    text = str(error)
    return "NOGROUP" in text or "UNBLOCKED" in text or "no longer exists" in text
