"""A minute of the soak experiment: everything is ended over and over, and the books balance."""

from __future__ import annotations

import pytest

from bench.experiments.soak.run import Plan, soak


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_minute_of_kills_loses_nothing() -> None:
    findings = soak(Plan(seconds=60, server_every=20, seed=1))
    found = findings.account
    assert found.passed, found
    assert findings.verification.passed, findings.verification.violations[:10]
    assert found.tasks > 3_000
    kinds = {fault.kind for fault in findings.faults}
    assert kinds == {
        "worker killed",
        "worker stopped",
        "leader killed",
        "server restarted",
        "server killed, appendfsync always",
    }
