"""``tq status``."""

from __future__ import annotations

import re
from types import SimpleNamespace

from click.testing import CliRunner

from tests.unit.cli.conftest import Command, Space
from tq_celery.cli import main


def test_an_empty_namespace(tq: Command) -> None:
    result = tq("status")
    assert result.exit_code == 0
    assert "leader:       none\n" in result.stdout
    assert "policy:       not set; the first scheduler sets it\n" in result.stdout


def test_the_whole_picture(space: Space, tq: Command) -> None:
    space.submit(3)
    space.submit(2, delay=60_000)
    space.deliver()
    grant = space.store.elect("me", 10_000)
    assert grant.epoch
    space.store.elect("another", 10_000)
    text = tq("status").stdout
    assert "leader:       me for " in text
    assert "standing by:  another\n" in text
    assert "policy:       wfq, by arrival within a tenant, generation 1\n" in text
    assert "waiting:      0 pending, 0 submitted, 2 delayed\n" in text
    assert "in flight:    2 dispatched, 1 running\n" in text
    assert "workers:      1 with 4 slots" in text
    assert "acme" in text
    assert "w1" in text


def test_as_json(space: Space, ask) -> None:
    space.submit(2)
    space.deliver()
    found = ask("status")
    assert set(found) == {
        "namespace", "now", "config", "leader", "submitted", "oldest", "delayed", "next_due",
        "dead", "starved", "queues", "tenants", "workers", "partial", "draining",
    }  # fmt: skip
    assert found["workers"][0]["worker"] == "w1"
    assert found["workers"][0]["holding"] == 1
    assert 0 < found["workers"][0]["remaining"] <= 30_000
    assert set(found["leader"]) == {"owner", "epoch", "fence", "remaining", "standbys"}
    assert found["tenants"][0]["live"] == 2


def test_top_bounds_the_tenants(space: Space, tq: Command, ask) -> None:
    for number in range(4):
        space.submit(tenant=b"t%d" % number)
    assert len(ask("status", "--top", "2")["tenants"]) == 2
    assert "(and 2 others; see --top)" in tq("status", "--top", "2").stdout


def test_watch_repeats_until_interrupted(space: Space, tq: Command, monkeypatch) -> None:
    naps = iter([None, KeyboardInterrupt()])

    def nap(seconds: float) -> None:
        assert seconds == 2
        if (end := next(naps)) is not None:
            raise end

    monkeypatch.setattr("tq_celery.cli.status.time.sleep", nap)
    assert tq("status", "--watch", "2s").stdout.count("namespace:") == 2


def test_watch_goes_on_while_the_server_is_away(make_server, monkeypatch) -> None:
    """Seen to fail with a watch that ended at the first look without an answer."""
    server = make_server()

    def interrupt() -> None:
        raise KeyboardInterrupt

    naps = iter([server.stop, server.start, interrupt])
    # not time.sleep itself, which the server's start uses
    monkeypatch.setattr(
        "tq_celery.cli.status.time", SimpleNamespace(sleep=lambda seconds: next(naps)())
    )
    result = CliRunner().invoke(main, ["--url", server.url, "status", "--watch", "2s"])
    assert result.exit_code == 0
    assert result.stdout.count("namespace:") == 2
    assert re.fullmatch(r"tq: the server does not answer \(.*; trying again\n", result.stderr)


def test_everything_is_zero_after_a_flush(space: Space, make_server, tq: Command, ask) -> None:
    space.submit(3)
    space.admit_all()
    for key in space.client.scan_iter(match=f"tq:{{{space.settings.namespace}}}:*"):
        space.client.delete(key)
    found = ask("status")
    assert found["queues"] == found["tenants"] == found["workers"] == []
    assert found["leader"]["owner"] is None


def test_a_lapsed_worker_is_shown_as_lapsed(space: Space, tq: Command, wait_until) -> None:
    space.serve(lease=1)
    wait_until(lambda: "lapsed" in tq("status").stdout, "the lease has run out")
    assert "workers:      0 with 0 slots" in tq("status").stdout
