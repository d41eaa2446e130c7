"""Which attempts are abandoned is drawn from seed, job and attempt, and from nothing else."""

from __future__ import annotations

from baseline import failing


def test_the_share_is_what_was_asked_for_first_attempts_and_later_ones_alike():
    for attempt in (1, 2, 3):
        hits = sum(failing.abandons(0.2, 1, job, attempt) for job in range(5_000))
        assert 900 < hits < 1_100


def test_the_draw_is_the_same_everywhere():
    drawn = [failing.abandons(0.2, 7, job, 1) for job in range(20)]
    assert [job for job, hit in enumerate(drawn) if hit] == [3, 9, 10]


def test_attempts_are_counted_in_the_file_across_processes(tmp_path, monkeypatch):
    path = tmp_path / "attempts"
    path.write_bytes(bytes(4))
    monkeypatch.setenv(failing.VARIABLE, f"0.5 3 {path}")
    monkeypatch.setattr(failing, "_plan", None)
    asked = [failing.attempt(2) for _ in range(6)]
    assert asked == [failing.abandons(0.5, 3, 2, number) for number in range(1, 7)]
    assert len(set(asked)) == 2
    assert path.read_bytes() == bytes([0, 0, 6, 0])


def test_without_the_variable_and_in_the_warm_up_nothing_is_abandoned(tmp_path, monkeypatch):
    monkeypatch.setattr(failing, "_plan", None)
    monkeypatch.delenv(failing.VARIABLE, raising=False)
    assert not any(failing.attempt(job) for job in range(50))
    path = tmp_path / "attempts"
    path.write_bytes(bytes(1))
    monkeypatch.setenv(failing.VARIABLE, f"0.9 3 {path}")
    assert not any(failing.attempt(-1) for _ in range(50))
