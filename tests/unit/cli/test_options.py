"""Where options come from, and the forms of durations and tenants."""

from __future__ import annotations

import json
from typing import Any

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cli.conftest import Command, Space
from tq_celery.cli import main, names
from tq_celery.cli.durations import format_age, parse_duration
from tq_celery.cli.groups import TQCommand
from tq_celery.cli.output import table
from tq_celery.cli.session import Session, with_session


@click.command(cls=TQCommand)
@with_session
def probe(session: Session) -> None:
    settings = session.settings
    click.echo(json.dumps([settings.url, settings.namespace, session.json]))


@pytest.fixture
def where():
    """Run a command that says where it would connect."""
    main.add_command(probe)

    def run(*args: str, **env: str) -> list[Any]:
        result = CliRunner().invoke(main, list(args), env=env, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    yield run
    del main.commands["probe"]


def test_defaults(where) -> None:
    assert where("probe") == ["redis://localhost:6379/0", "celery", False]


def test_the_option_closest_to_the_command_wins(where) -> None:
    assert where("--namespace", "a", "--json", "probe")[1:] == ["a", True]
    assert where("--namespace", "a", "probe", "--namespace", "b", "--json")[1:] == ["b", True]


def test_a_typed_option_before_the_command_beats_the_environment(where) -> None:
    """The command's own level reads the same variable and must not undo what was typed."""
    assert where("--namespace", "typed", "probe", TQ_NAMESPACE="variable")[1] == "typed"
    assert where("probe", TQ_NAMESPACE="variable", TQ_JSON="1")[1:] == ["variable", True]


def test_the_environment_beats_the_file(where, tmp_path) -> None:
    file = tmp_path / "tq.toml"
    file.write_text('namespace = "file"\nurl = "redis://file:1/0"\n')
    assert where("--config", str(file), "probe")[:2] == ["redis://file:1/0", "file"]
    assert where("probe", TQ_CONFIG=str(file), TQ_NAMESPACE="variable")[1] == "variable"


def test_the_application_gives_settings_and_its_name(where, tmp_path, monkeypatch) -> None:
    (tmp_path / "shop_tq_probe.py").write_text(
        "from celery import Celery\n"
        "app = Celery('shop', set_as_current=False)\n"
        "app.conf.tq_url = 'redis://shop:1/0'\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert where("-A", "shop_tq_probe", "probe")[:2] == ["redis://shop:1/0", "shop"]
    assert where("probe", "-A", "shop_tq_probe:app", "--namespace", "x")[1] == "x"


def test_what_the_application_gave_in_code_wins_but_over_flags(
    where, tmp_path, monkeypatch
) -> None:
    (tmp_path / "code_tq_probe.py").write_text(
        "from celery import Celery\n"
        "from tq_celery import TQ\n"
        "app = Celery('code', set_as_current=False)\n"
        "TQ(app, 'redis://code:1/0')\n"
    )
    file = tmp_path / "tq.toml"
    file.write_text('namespace = "file"\nurl = "redis://file:1/0"\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    at = ("-A", "code_tq_probe")
    assert where(*at, "probe", TQ_URL="redis://variable:1/0")[:2] == ["redis://code:1/0", "code"]
    assert where(*at, "--config", str(file), "probe")[:2] == ["redis://code:1/0", "file"]
    assert where(*at, "probe", "--url", "redis://typed:1/0")[0] == "redis://typed:1/0"


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("30s", 30), ("1.5m", 90), ("2h", 7200), ("1d", 86400)]
)
def test_durations_carry_a_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["30", "", "s", "-1s", "5 weeks", "1e400", "nan"])
def test_other_durations_are_refused_with_the_allowed_form(text: str) -> None:
    with pytest.raises(ValueError, match="expected a number with a unit: 500ms, 30s"):
        parse_duration(text)


def test_a_bare_number_is_refused_on_the_command_line(refused) -> None:
    line = refused("status", "--watch", "3")
    assert "'3' is not a duration; expected a number with a unit: 500ms, 30s" in line


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.35, "350ms"), (4.2, "4.2s"), (185, "3m05s"), (7800, "2h10m"), (5 * 86400 + 10800, "5d03h")],
)
def test_ages_are_short(seconds: float, text: str) -> None:
    assert format_age(seconds) == text


@given(st.binary(min_size=1, max_size=256))
def test_every_tenant_can_be_shown_and_typed_again(raw: bytes) -> None:
    assert names.parse(names.show(raw)) == raw
    assert names.show(raw).isprintable()


def test_a_tenant_that_is_not_text_can_be_steered(space: Space, tq: Command, ask) -> None:
    space.submit(tenant=b"\xff\x00")
    assert tq("tenants", "weight", "hex:ff00", "3").exit_code == 0
    assert [t["tenant"] for t in ask("tenants", "list")["tenants"]] == ["hex:ff00"]


def test_bad_tenants(refused) -> None:
    assert "hexadecimal digits" in refused("tenants", "pause", "hex:zz")
    assert "1 to 256 bytes" in refused("tenants", "pause", "x" * 257)


def test_tables_line_up() -> None:
    assert table(["a", "count"], [["x", 5], ["long", None]]).splitlines() == [
        "A     COUNT",
        "x         5",
        "long      -",
    ]
