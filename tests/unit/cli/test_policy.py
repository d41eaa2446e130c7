"""``tq policy``."""

from __future__ import annotations

from tests.unit.cli.conftest import Command, Space


def test_show_before_and_after_the_first_scheduler(space: Space, tq: Command, ask) -> None:
    result = tq("policy", "show")
    assert result.stdout == "not set; the first scheduler sets it\n"
    assert "no leader" in result.stderr
    space.store.seed(space.settings)
    assert tq("policy", "show").stdout == "wfq, by arrival within a tenant, generation 1\n"
    assert ask("policy", "show") == {
        "policy": "wfq",
        "order_within": "arrival",
        "ageing": None,
        "generation": 1,
        "max_running": None,
        "unranked": 0,
        "leader": False,
    }


def test_set_switches_and_counts_who_is_still_to_be_ranked(space: Space, tq: Command, ask) -> None:
    space.submit(tenant=b"a")
    space.submit(tenant=b"b")
    space.admit_all()
    found = ask("policy", "set", "fifo")
    assert (found["policy"], found["generation"], found["unranked"]) == ("fifo", 2, 2)
    assert "2 tenants are still to be ranked anew" in tq("policy", "show").stdout
    space.rounds(lambda: not ask("policy", "show")["unranked"], "all are ranked anew")
    assert ask("policy", "set", "wfq", "--order-within", "deadline")["order_within"] == "deadline"


def test_a_total_cap_holds_at_once_and_is_lifted(space: Space, tq: Command, ask, refused) -> None:
    space.store.seed(space.settings)
    assert ask("policy", "cap", "3")["max_running"] == 3
    assert "at most 3 running" in tq("policy", "show").stdout
    assert ask("policy", "cap", "none")["max_running"] is None
    assert "expected 1 to" in refused("policy", "cap", "0")


def test_set_keeps_the_order_within_a_tenant(space: Space, ask) -> None:
    space.store.seed(space.settings)
    ask("policy", "set", "wfq", "--order-within", "priority")
    assert ask("policy", "set", "wfq")["order_within"] == "priority"


def test_ageing_is_switched_on_kept_and_switched_off(space: Space, tq: Command, ask) -> None:
    space.store.seed(space.settings)
    assert ask("policy", "set", "priority", "--ageing", "90s")["ageing"] == 90.0
    line = "priority, one level is worth 1m30s of waiting, generation 2"
    assert tq("policy", "show").stdout == f"{line}\n"
    assert f"policy:       {line}\n" in tq("status").stdout
    assert ask("status")["config"]["ageing"] == "90.0"
    assert ask("policy", "set", "wfq", "--order-within", "priority")["ageing"] == 90.0
    assert "by priority within a tenant, one level is worth 1m30s" in tq("policy", "show").stdout
    # Where priority does not decide it is kept, and not spoken of.
    assert ask("policy", "set", "fifo")["ageing"] == 90.0
    assert tq("policy", "show").stdout == "fifo, generation 4\n"
    assert ask("policy", "set", "priority", "--ageing", "none")["ageing"] is None
    assert tq("policy", "show").stdout == "priority, generation 5\n"


def test_before_the_first_scheduler_the_setting_counts(space: Space, tq: Command) -> None:
    assert tq("policy", "cap", "3").exit_code == 0  # something is stored, but no policy
    assert tq("policy", "set", "priority", env={"TQ_AGEING": "30s"}).exit_code == 0
    assert space.store.config()["ageing"] == "30.0"


def test_a_bad_ageing(space: Space, refused) -> None:
    space.store.seed(space.settings)
    assert "ageing: 0.0 is not allowed; expected a number of seconds from 0.001" in refused(
        "policy", "set", "priority", "--ageing", "0s"
    )
    for command in (("policy", "set", "priority"), ("scheduler",)):
        assert "'30' is not a duration" in refused(*command, "--ageing", "30")
    assert space.store.config()["policy"] == "wfq"


def test_a_second_switch_waits_for_the_first(space: Space, tq: Command, refused) -> None:
    space.submit()
    space.admit_all()
    assert tq("policy", "set", "fifo").exit_code == 0
    assert "an earlier policy switch is still being ranked anew" in refused("policy", "set", "edf")


def test_waiting_without_a_leader_ends_in_words(space: Space, refused) -> None:
    space.submit()
    space.admit_all()
    line = refused("policy", "set", "fifo", "--wait", "200ms")
    assert "1 tenants are not ranked yet: no leader (start tq scheduler)" in line


def test_unknown_policies(refused) -> None:
    assert "'lifo' is not one of" in refused("policy", "set", "lifo")
