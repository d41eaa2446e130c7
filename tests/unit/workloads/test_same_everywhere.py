"""The same arguments give the same bytes, on any machine and with any Python."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from tq_celery.workloads import draws as draws_module
from tq_celery.workloads.canonical import canonical_bytes, digest
from tq_celery.workloads.draws import DRAWS, draws, pick
from tq_celery.workloads.registry import WORKLOADS, make_workload
from tq_celery.workloads.work import Work

#: SHA-256 of ten seconds of each, by name and seed.
DIGESTS = {
    ("uniform", 1): "61f0ba38cfa6e2a7382e69539b35223398fbd0e91392b8b75748c44ff7bf274f",
    ("uniform", 2): "559a27b46e964c73676075cef2b7ba1978738ec18f449936a262928984633988",
    ("bursty", 1): "ac0c7b0b8772d827fcc64ea35f6e301662838f9dd31f2246e3e7868cd279d023",
    ("bursty", 2): "3af158596a79e117bb528ddda032713db24aff6424edb73044d4c9901106ba46",
    ("heavy_tailed", 1): "87b91cb90f0d0537edfbc4259ca0dafd06e1488b5a9be8de6f8141aeda0d4cbf",
    ("heavy_tailed", 2): "ef25a657b61fc509ad031ba3d013d1bdc701ec12ce752f10ac498e8164b639bd",
    ("multi_tenant", 1): "4f9c463b45d6f525484ef9f603d5e0506aef132411e6c889d730a6c8add4cc55",
    ("multi_tenant", 2): "2070cc522018c13f1769b0a0f46376bf71f82f64c890ba776b2b4b3e1f273609",
    ("llm", 1): "a22f6fc13bea455a16c85a7744e1aab2d2c4b54c0cc39be2dcaf15fe8b082c64",
    ("llm", 2): "cd1c93f68a8bb6e2f6d2738ad08e9252b6640ee5e146f21141592999ff7f4b67",
    ("fixed", 1): "994fdc29eaa4b710b841086c334192404649ac6fc0edc17968491e9b4e0c1718",
    ("fixed", 2): "48ff5f5b1882cacdffe40896a9ce1ea3ce2d0c4e0e195c5fdb555b16c3b9039c",
}

#: The same of the recording below.
TRACE_DIGESTS = {
    1: "858742af761d95449fe9b7fad4ce1def20bf9ad0ab1ba5c8004daa0143020739",
    2: "11e667c1790bde06ef16e2dd4f02a2e0c4d78bc6c5978122ec6c924ffe4563c8",
}


def recording(folder: Path) -> Path:
    """Write a small Standard Workload Format file, made up for this test."""
    lines = ["; made up"]
    for job in range(300):
        run_time = 5 + job * job % 97
        lines.append(f"{job + 1} {job * 2} -1 {run_time} {'-1 ' * 7}{job % 7} {'-1 ' * 6}".strip())
    path = folder / "jobs.swf"
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize(("name", "seed"), DIGESTS)
def test_a_name_and_a_seed_are_these_bytes(name: str, seed: int) -> None:
    """Seen to fail with tenant and priority drawn in the other order."""
    seconds = 0.05 if name == "fixed" else None
    works = make_workload(name, seed=seed, window=10.0, seconds=seconds)
    assert digest(works) == DIGESTS[name, seed]


@pytest.mark.parametrize("seed", TRACE_DIGESTS)
def test_a_recording_and_a_seed_are_these_bytes(seed: int, tmp_path: Path) -> None:
    works = make_workload("trace", seed=seed, window=10.0, trace=recording(tmp_path))
    assert digest(works) == TRACE_DIGESTS[seed]


def test_every_workload_has_its_bytes_here() -> None:
    assert {name for name, _ in DIGESTS} | {"trace"} == set(WORKLOADS)


def test_the_bytes_hold_every_field() -> None:
    """Two tasks that differ in anything differ in bytes; seen to fail without the deadline."""
    work = Work(0, 1.5, 0.25, "a", 0.25, 2, 3.0)
    others = [
        work._replace(job=1),
        work._replace(at=1.500001),
        work._replace(seconds=0.250001),
        work._replace(tenant="b"),
        work._replace(cost=0.250001),
        work._replace(priority=3),
        work._replace(deadline=3.000001),
        work._replace(deadline=None),
    ]
    assert len({canonical_bytes([each]) for each in (work, *others)}) == len(others) + 1
    assert canonical_bytes([work]) == b'[0,1500000,250000,"a",250000,2,3000000]\n'


def test_each_task_takes_the_same_number_of_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a workload uses: a field drawn in future takes a spare number and moves no other."""
    taken = 0

    class Counting(random.Random):
        def random(self) -> float:
            nonlocal taken
            taken += 1
            return super().random()

    monkeypatch.setattr(random, "Random", Counting)
    for name in ("uniform", "heavy_tailed", "multi_tenant", "llm"):
        taken = 0
        make_workload(name, seed=3, count=50)
        assert taken == 50 * DRAWS


def test_only_the_one_promised_method_is_drawn_from() -> None:
    """``random.random()`` is the same in every Python; the sequences of other methods are not."""
    source = Path(draws_module.__file__).read_text()
    assert re.findall(r"source\.\w+", source) == ["source.random"]
    folder = Path(draws_module.__file__).parent
    importing = [path.name for path in folder.glob("*.py") if "import random" in path.read_text()]
    assert importing == ["draws.py"]


def test_a_longer_run_begins_with_the_tasks_of_a_shorter_one() -> None:
    for name in ("uniform", "bursty", "heavy_tailed", "multi_tenant", "llm"):
        long = make_workload(name, seed=4, count=300)
        assert make_workload(name, seed=4, count=100) == long[:100]


def test_workloads_of_a_seed_share_their_priorities() -> None:
    """What differs between two of them is what they are about."""
    uniform, tailed = (
        make_workload(name, seed=5, count=200) for name in ("uniform", "heavy_tailed")
    )
    assert [work.priority for work in uniform] == [work.priority for work in tailed]
    assert [work.tenant for work in uniform] == [work.tenant for work in tailed]


def test_a_negative_seed_is_not_another_seed() -> None:
    with pytest.raises(ValueError, match="seed -1 is negative"):
        next(draws(-1))


def test_a_choice_by_one_number() -> None:
    choices = (("a", 0.5), ("b", 0.25), ("c", 0.25))
    assert [pick(choices, draw) for draw in (0.0, 0.49, 0.5, 0.74, 0.75, 0.999)] == list("aabbcc")
    # shares that do not quite add up to 1 leave nobody without a choice
    assert pick((("a", 0.1), ("b", 0.8)), 0.95) == "b"
