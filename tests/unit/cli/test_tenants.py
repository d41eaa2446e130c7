"""``tq tenants``."""

from __future__ import annotations

from tests.unit.cli.conftest import Command, Space


def test_list_shows_the_fullest_first(space: Space, tq: Command) -> None:
    space.submit(1, tenant=b"quiet")
    space.submit(3, tenant=b"flood")
    space.admit_all()
    head, *rows = tq("tenants", "list").stdout.splitlines()
    assert head.split() == ["TENANT", "WEIGHT", "CAP", "STATE", "PENDING", "RUNNING", "LIVE"]
    assert [row.split()[0] for row in rows] == ["flood", "quiet"]


def test_list_as_json(space: Space, ask) -> None:
    space.submit(2, queue="a")
    space.submit(1, queue="b")
    space.admit_all()
    space.store.set_weight(b"acme", 2.5)
    space.store.set_cap(b"acme", 4)
    assert ask("tenants", "list") == {
        "tenants": [
            {
                "tenant": "acme",
                "weight": 2.5,
                "max_running": 4,
                "paused": False,
                "live": 3,
                "running": 0,
                "pending": {"a": 2, "b": 1},
            }
        ],
        "partial": False,
    }


def test_list_says_that_there_are_more(space: Space, tq: Command, ask) -> None:
    for number in range(5):
        space.submit(tenant=b"t%d" % number)
    document = ask("tenants", "list", "--limit", "3")
    assert (len(document["tenants"]), document["partial"]) == (3, True)
    assert "3 were read" in tq("tenants", "list", "--limit", "3").stderr


def test_weight(space: Space, tq: Command, ask) -> None:
    space.submit()
    assert tq("tenants", "weight", "acme", "3").stdout == "acme: weight 3\n"
    assert ask("tenants", "weight", "acme", "0.5")["weight"] == 0.5


def test_cap_and_its_end(space: Space, tq: Command, ask) -> None:
    space.submit()
    assert tq("tenants", "cap", "acme", "8").stdout == "acme: at most 8 running\n"
    assert ask("tenants", "list")["tenants"][0]["max_running"] == 8
    assert ask("tenants", "cap", "acme", "none")["max_running"] is None


def test_pause_and_resume(space: Space, tq: Command, ask) -> None:
    space.submit()
    assert ask("tenants", "pause", "acme")["paused"] is True
    assert "paused" in tq("tenants", "list").stdout
    assert tq("tenants", "resume", "acme").stdout == "acme: resumed\n"
    assert ask("tenants", "list")["tenants"][0]["paused"] is False


def test_an_unknown_tenant_is_refused_with_a_guess(space: Space, refused) -> None:
    space.submit(tenant=b"acme")
    line = refused("tenants", "weight", "acne", "3")
    assert line.startswith(
        "tq: no such tenant: acne has no settings and had no tasks of late; did you"
    )
    assert "did you mean acme?" in line


def test_an_unknown_tenant_can_be_set_up_before_its_first_task(tq: Command, ask) -> None:
    assert tq("tenants", "weight", "acme", "3", "--new").exit_code == 0
    assert tq("tenants", "cap", "acme", "2").exit_code == 0
    assert ask("tenants", "list")["tenants"][0]["weight"] == 3


def test_values_out_of_range(space: Space, refused) -> None:
    space.submit()
    for weight in ("0", "-1", "nan", "inf", "1e7"):
        line = refused("tenants", "weight", "--", "acme", weight)
        assert "is not allowed; expected 0.001 to 1000000" in line
    for cap in ("0", "-1", "1.5", "many"):
        assert "is not allowed; expected 1 to" in refused("tenants", "cap", "--", "acme", cap)
