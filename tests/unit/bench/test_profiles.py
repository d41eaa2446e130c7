"""Profiles: those that come with the lab load, and a malformed one is one clear line."""

from __future__ import annotations

import pytest

from bench.harness.errors import BenchError
from bench.harness.profiles import NAMES, load_profile


def test_every_profile_loads_under_its_name():
    assert {"quick", "full", "reference", "failure", "smoke", "sweep"} <= set(NAMES)
    for name in NAMES:
        assert load_profile(name).name == name


def test_a_file_of_ones_own(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("window = 3.5\nslots = 6\nworkers = 3\n")
    profile = load_profile(str(path))
    assert (profile.name, profile.window, profile.slots, profile.workers) == ("mine", 3.5, 6, 3)
    assert (profile.load, profile.seed, profile.deadline) == (1.25, 1, (1.0, 10.0, 0.2))
    path.write_text("window = 3.5\ndeadline = [0.5, 3, 0]\n")
    assert load_profile(str(path)).deadline == (0.5, 3.0, 0.0)


@pytest.mark.parametrize(
    "text, words",
    [
        ("window = 'long'", ["window = 'long'", "a number from 0.5 to 3600"]),
        ("window = true", ["window = True", "a number"]),
        ("window = 2\nslot = 3", ["unknown field 'slot'", "did you mean 'slots'?"]),
        ("slots = 4", ["window is missing"]),
        ("window = 2\nslots = 5", ["slots = 5", "2 workers"]),
        ("window = 2\nfailure = 0.2", ["failure = 0.2", "prefork"]),
        ("window = 2\nrepetitions = 1.5", ["repetitions = 1.5", "a whole number"]),
        ("window = 2\nexec = 'CPU'", ["exec = 'CPU'", "sleep, cpu"]),
        ("window = 2\ndeadline = [0, 0, 1]", ["deadline = [0, 0, 1]", "three numbers"]),
        ("window = 2\ndeadline = 3", ["deadline = 3", "three numbers"]),
        ("window = 2\npool = 'solo'", ["pool solo", "one slot a worker"]),
        ("window == 2", ["is not TOML"]),
    ],
)
def test_a_malformed_one_names_field_value_and_what_is_allowed(tmp_path, text, words):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(BenchError) as caught:
        load_profile(str(path))
    for word in words:
        assert word in caught.value.message
    assert "\n" not in caught.value.message


def test_an_unknown_name_says_what_was_meant_and_a_missing_file_that_it_is_missing(tmp_path):
    with pytest.raises(BenchError, match=r"'qick' is not one of .*did you mean 'quick'\?"):
        load_profile("qick")
    with pytest.raises(BenchError, match="No such file"):
        load_profile(str(tmp_path / "none.toml"))
