"""The rules under promtool: every one has a test in ``deploy/prometheus/tests``, and it passes.

Seen to fail: with a test taken away, with a bound of an alert changed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from tests.unit.deploy.queries import DEPLOY, mistakes, rules

TESTS = sorted((DEPLOY / "prometheus" / "tests").glob("*.yml"))
RULES = [rule.get("alert") or rule["record"] for rule in rules()]


def promtool(*words: str) -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")
    done = subprocess.run([program, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_configuration_is_taken() -> None:
    promtool("check", "config", str(DEPLOY / "prometheus" / "prometheus.yml"))


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_the_rules_do_what_their_tests_say(path: Any) -> None:
    promtool("test", "rules", str(path))


@pytest.mark.parametrize("name", RULES)
def test_a_rule_has_a_test(name: str) -> None:
    assert any(re.search(rf"\b{re.escape(name)}\b", path.read_text("utf-8")) for path in TESTS)


def test_the_series_of_the_tests_exist() -> None:
    for path in TESTS:
        for test in yaml.safe_load(path.read_text("utf-8"))["tests"]:
            for series in test["input_series"]:
                assert mistakes(series["series"]) == [], f"{path.name}, {test['name']}"
