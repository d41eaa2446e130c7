"""``tq purge``: the true number, of the chosen queues and tenant, and never by accident."""

from __future__ import annotations

from click.testing import CliRunner

from tests.unit.cli.conftest import Command, Space
from tq_celery.cli import main


def fill(space: Space) -> None:
    """Leave 3 read by a worker or unread in exec, 4 pending, 2 delayed, 5 submitted; one dead."""
    space.bury()
    space.submit(3)
    space.deliver()
    space.submit(2, tenant=b"globex")
    space.submit(2, queue="other")
    space.admit_all()
    space.submit(2, delay=3_600_000)
    space.submit(5)


def test_a_dry_run_counts_what_a_purge_removes(space: Space, ask) -> None:
    fill(space)
    counted = ask("purge", "--dry-run")
    assert counted["dry_run"]
    purged = ask("purge", "--yes")
    assert purged == {"purged": counted["purged"], "dry_run": False}
    assert purged["purged"] == 3 + 2 + 2 + 2 + 5 - 1, "one is in a worker's hands"
    assert ask("status")["dead"] == 1
    for queue in ask("queues", "list")["queues"]:
        assert (queue["submitted"], queue["delayed"], queue["pending"]) == (0, 0, 0)
        assert (queue["dispatched"], queue["running"]) == (0, int(queue["queue"] == "work"))
    assert ask("purge", "--yes")["purged"] == 0


def test_by_queue_and_tenant(space: Space, ask, tq: Command) -> None:
    fill(space)
    assert tq("purge", "--tenant", "globex", "--yes").stdout == "2 purged\n"
    assert tq("purge", "--queue", "other", "--dry-run").stdout == "2 would be purged\n"
    assert tq("purge", "--queue", "other", "--tenant", "globex", "--force").stdout == "0 purged\n"
    assert ask("purge", "--queue", "other", "--yes")["purged"] == 2


def test_it_asks_first(space: Space, tq: Command, refused) -> None:
    space.submit(3)
    aim = ["--url", space.server.url, "--namespace", space.settings.namespace]
    said_no = CliRunner().invoke(main, [*aim, "purge", "--tenant", "acme"], input="n\n")
    assert said_no.exit_code == 2
    assert "This removes 3 waiting tasks from all queues for tenant acme" in said_no.stderr
    assert said_no.stderr.endswith("tq: nothing was purged\n")
    assert "say --yes" in refused("purge", "--json")
    assert "no such queue" in refused("purge", "--queue", "wrk", "--yes")
    said_yes = CliRunner().invoke(main, [*aim, "purge", "--queue", "work"], input="y\n")
    assert said_yes.stdout == "3 purged\n"
