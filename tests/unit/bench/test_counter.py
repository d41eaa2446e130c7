"""Counting executions without a lock must still count every one."""

from __future__ import annotations

import multiprocessing
import threading

from baseline import counter

HITS = 2_000


def _work() -> None:
    for _ in range(HITS):
        counter.hit()


def _child() -> None:
    threads = [threading.Thread(target=_work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_hits_of_threads_and_forked_processes_add_up(tmp_path, monkeypatch) -> None:
    path = tmp_path / "hits"
    counter.create(path)
    monkeypatch.setenv(counter.VARIABLE, str(path))
    _work()  # the parent has a cell of its own before it forks
    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=_child) for _ in range(2)]
    for child in children:
        child.start()
    _work()
    for child in children:
        child.join(30)
        assert child.exitcode == 0
    assert counter.total(path) == 2 * HITS + 2 * 4 * HITS


def test_without_a_file_counting_does_nothing(monkeypatch) -> None:
    monkeypatch.delenv(counter.VARIABLE, raising=False)
    thread = threading.Thread(target=counter.hit)
    thread.start()
    thread.join()
