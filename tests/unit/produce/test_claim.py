"""Whose a run is: new, finished, under way, interrupted, or of other tasks; on a real server."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tq_celery.errors import ProduceError
from tq_celery.produce import claim as module
from tq_celery.produce.claim import SILENCE, Run, take
from tq_celery.settings import Settings
from tq_celery.store.run_book import RunBook

WANTED = Run("uniform", "digest", 100)
HOUR = 3600.0
HERE = socket.gethostname()


@pytest.fixture
def book(server: Any, namespace: str) -> Iterator[RunBook]:
    made = RunBook.open(Settings(url=server.url, namespace=namespace))
    yield made
    made.close()


@pytest.fixture
def left(book: RunBook) -> Callable[..., None]:
    """Leave an entry behind, as another producer would have; ``ago`` is ms."""

    def leave(ago: int = 0, **fields: Any) -> None:
        _, now = book.read("r-1")
        run = replace(WANTED, began=now - ago, seen=now - ago, **fields)
        assert book.note("r-1", b"", run.encode())

    return leave


def gone_pid() -> int:
    """Return the pid of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_new_run_starts_at_its_first_task_and_is_ours(book: RunBook) -> None:
    claim = take(book, "r-1", WANTED, HOUR)
    assert claim.start == 0
    raw, now = book.read("r-1")
    run = Run.decode(raw)
    assert run.owner == f"{HERE}/{os.getpid()}"
    assert run.began == run.seen
    assert abs(run.seen - now) < 5000


def test_a_finished_run_is_recognised_however_long_ago(
    book: RunBook, left: Callable[..., None]
) -> None:
    left(ago=40 * 86_400_000, sent=100, upto=100)
    with pytest.raises(
        ProduceError,
        match=r"run r-1 was submitted before: all 100 tasks, .*; choose another --seed or --prefix",
    ):
        take(book, "r-1", WANTED, HOUR)


def test_other_tasks_under_the_same_ids_are_refused(
    book: RunBook, left: Callable[..., None]
) -> None:
    left(sent=5, upto=5)
    before, _ = book.read("r-1")
    with pytest.raises(ProduceError, match="run r-1 is taken: 100 tasks of uniform with other"):
        take(book, "r-1", replace(WANTED, digest="another"), HOUR)
    assert book.read("r-1")[0] == before


def test_a_run_of_which_nothing_was_taken_leaves_its_ids_free(
    book: RunBook, left: Callable[..., None]
) -> None:
    left(results="7-7")
    claim = take(book, "r-1", replace(WANTED, digest="another"), HOUR)
    assert (claim.run.digest, claim.start, claim.run.results) == ("another", 0, "0")


def test_a_producer_that_was_killed_before_its_first_task_leaves_its_ids_free(
    book: RunBook, left: Callable[..., None]
) -> None:
    """Seen to fail where an owner alone made the ids taken, for ever."""
    left(owner=f"elsewhere/{gone_pid()}")
    with pytest.raises(ProduceError, match="run r-1 is taken"):
        take(book, "r-1", replace(WANTED, digest="another"), HOUR)
    raw, now = book.read("r-1")
    dead = replace(Run.decode(raw), owner=f"{HERE}/{gone_pid()}")
    assert book.note("r-1", raw, dead.encode())
    claim = take(book, "r-1", replace(WANTED, digest="another"), HOUR)
    assert (claim.run.digest, claim.start) == ("another", 0)
    assert claim.run.began >= now


def test_a_note_that_is_repeated_is_written_once_and_for_all(book: RunBook) -> None:
    """Its reply may have been lost; seen to fail when the repeat was taken for another producer."""
    assert book.note("r-1", b"", b"one")
    assert book.note("r-1", b"", b"one")
    assert not book.note("r-1", b"", b"two")
    assert book.note("r-1", b"one", b"two")
    assert book.note("r-1", b"one", b"two")
    assert book.read("r-1")[0] == b"two"


def test_a_run_that_was_let_go_goes_on_where_it_was(
    book: RunBook, left: Callable[..., None]
) -> None:
    left(sent=42, upto=42, results="7-7")
    claim = take(book, "r-1", WANTED, HOUR)
    assert claim.start == 42
    assert claim.run.results == "7-7", "what had ended before still counts"


def test_a_run_that_is_under_way_is_left_alone(book: RunBook, left: Callable[..., None]) -> None:
    left(sent=42, upto=60, owner=f"elsewhere/{gone_pid()}")
    with pytest.raises(ProduceError, match=r"another producer \(elsewhere/\d+\) is submitting"):
        take(book, "r-1", WANTED, HOUR)


def test_a_producer_that_was_killed_here_is_known_to_be_gone(
    book: RunBook, left: Callable[..., None]
) -> None:
    """Seen to fail without the look at its pid: the next ten seconds were refused."""
    left(sent=42, upto=60, owner=f"{HERE}/{gone_pid()}")
    assert take(book, "r-1", WANTED, HOUR).start == 42


def test_a_producer_elsewhere_that_is_silent_is_gone(
    book: RunBook, left: Callable[..., None]
) -> None:
    left(ago=SILENCE + 1000, sent=42, upto=60, owner="elsewhere/1")
    assert take(book, "r-1", WANTED, HOUR).start == 42


def test_what_may_have_been_submitted_is_not_submitted_again_without_a_memory(
    book: RunBook, left: Callable[..., None]
) -> None:
    """The namespace would run it twice; seen to fail without the comparison."""
    left(ago=120_000, sent=42, upto=60)
    with pytest.raises(ProduceError, match=r"cannot go on: up to 18 tasks after the first 42"):
        take(book, "r-1", WANTED, 60.0)
    assert take(book, "r-1", WANTED, HOUR).start == 42


def test_an_entry_that_cannot_be_read_is_not_touched(book: RunBook) -> None:
    assert book.note("r-1", b"", b'{"version": 9}')
    with pytest.raises(ProduceError, match="run r-1 has an entry of another version"):
        take(book, "r-1", WANTED, HOUR)
    assert book.read("r-1")[0] == b'{"version": 9}'


def test_who_was_overtaken_stops_and_writes_nothing(book: RunBook) -> None:
    first = take(book, "r-1", WANTED, HOUR)
    first.note(10, 20)
    raw, _ = book.read("r-1")
    assert book.note("r-1", raw, replace(Run.decode(raw), owner="x/1", sent=30).encode())
    with pytest.raises(ProduceError, match="another producer has taken over run r-1 at task 10"):
        first.note(20, 30)
    assert Run.decode(book.read("r-1")[0]).sent == 30


def test_a_release_lets_the_next_one_go_on(book: RunBook) -> None:
    claim = take(book, "r-1", WANTED, HOUR)
    claim.note(10, 20)
    claim.release(10, 20)
    again = take(book, "r-1", WANTED, HOUR)
    assert (again.start, again.run.upto) == (10, 20)


def test_signs_of_life_are_given_now_and_then(
    book: RunBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = take(book, "r-1", WANTED, HOUR)
    before, _ = book.read("r-1")
    claim.sign(0, 5)
    assert book.read("r-1")[0] == before
    monkeypatch.setattr(module, "SIGN_EVERY", 0.0)
    claim.sign(0, 5)
    assert Run.decode(book.read("r-1")[0]).upto == 5
