"""The guards' arithmetic and patches: each takes out what it names, and nothing may be silent."""

from __future__ import annotations

import difflib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.experiments.guards.account import GUARDS, Guard, Shown, faults
from bench.experiments.guards.chart import draw
from bench.experiments.guards.patches import PATCHES, patched
from bench.harness.errors import BenchError
from tq_celery.store.scripts import SCRIPTS

SOUND = Shown(
    stale=0, lost=0, settled_twice=0, late_writes=0, two_leaders=0.0, refused=1, broken=[]
)  # fmt: skip
#: What has to show in a run without each guard.
SHOWN: dict[str, dict[str, Any]] = {
    "fence": {"stale": 7},
    "trust-window": {"late_writes": 7},
    "ingress-read": {"lost": 7},
    "ingress-later": {"settled_twice": 7},
    "token": {"settled_twice": 7},
    "ack-later": {"settled_twice": 7},
    "ack-first": {"lost": 7},
}


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_a_guard_is_proved_by_its_own_violation_and_no_other(guard: Guard) -> None:
    broken = replace(SOUND, broken=["counters", guard.promise], **SHOWN[guard.name])
    assert broken.violations(guard) == 7
    assert faults(guard, [SOUND], [broken, broken]) == []
    silent = replace(SOUND, broken=broken.broken)
    assert faults(guard, [SOUND], [broken, silent]) == [
        f"{guard.name}: 1 runs without it show no violation"
    ]
    others: dict[str, Any] = {word: 3 for words in SHOWN.values() for word in words}
    others |= dict.fromkeys(SHOWN[guard.name], 0)
    assert faults(guard, [SOUND], [replace(SOUND, **others)]) != []


@pytest.mark.parametrize(
    "change",
    [{"stale": 1}, {"lost": 1}, {"settled_twice": 1}, {"late_writes": 1}, {"broken": ["epochs"]}],
)
def test_a_run_with_the_guard_shows_nothing_at_all(change: dict[str, Any]) -> None:
    guard = GUARDS[0]
    found = replace(SOUND, **change)
    assert not found.sound
    assert len(faults(guard, [SOUND, found], [replace(SOUND, stale=1, broken=["epochs"])])) == 1


def test_a_violation_that_verify_does_not_find_is_a_fault() -> None:
    guard = GUARDS[0]
    unseen = replace(SOUND, stale=1, broken=["counters"])
    assert faults(guard, [SOUND], [unseen]) == [
        "fence: tq verify did not find epochs broken 1 times"
    ]


@pytest.mark.parametrize(
    "name, script",
    [(name, script) for name, changes in PATCHES.items() for script in changes],
)
def test_a_patch_changes_the_lines_that_it_names(name: str, script: str) -> None:
    live = SCRIPTS[script]
    changed = patched(live, PATCHES[name][script])
    lines = [
        line
        for line in difflib.ndiff(live.text.splitlines(), changed.text.splitlines())
        if line[0] in "+-"
    ]
    assert 0 < len(lines) <= 8
    assert changed.sha != live.sha
    assert SCRIPTS[script] is live, "nothing is installed by it"


def test_a_guard_that_looks_different_is_an_error() -> None:
    with pytest.raises(BenchError, match="dispatch does not look as expected"):
        patched(SCRIPTS["dispatch"], [("no such text", "")])
    with pytest.raises(BenchError, match="dispatch does not look as expected"):
        patched(SCRIPTS["dispatch"], [("redis.call", "")])  # there more than once


def test_a_leader_without_trust_window_believes_for_ever() -> None:
    from bench.experiments.guards.scheduler import Trusting
    from tq_celery.scheduler.leader import Leadership

    clock = [0.0]
    honest, trusting = Leadership(lambda: clock[0]), Trusting(lambda: clock[0])
    for each in (honest, trusting):
        each.trust(3, until=1.0)
        assert each.epoch() == 3
    clock[0] = 100.0
    assert (honest.epoch(), trusting.epoch()) == (0, 3)
    trusting.refuse(3)
    assert trusting.epoch() == 0


def test_the_chart_is_drawn(tmp_path: Path) -> None:
    runs = {
        guard.name: {"with": [SOUND], "without": [replace(SOUND, **SHOWN[guard.name])]}
        for guard in GUARDS
    }
    draw(runs, tmp_path / "guards.png")
    assert (tmp_path / "guards.png").read_bytes().startswith(b"\x89PNG")
