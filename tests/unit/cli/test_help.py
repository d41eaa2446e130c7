"""What holds for every command: JSON, an example, a variable per option, a short help."""

from __future__ import annotations

import ast
import pkgutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from tq_celery.cli import main


def commands(group: click.Group = main, path: tuple[str, ...] = ()) -> Iterator[tuple[Any, Any]]:
    context = click.Context(group, info_name="tq")
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


EVERY = list(commands())
LEAVES = [each for each in EVERY if not isinstance(each[1], click.Group)]


def named(each: list[Any]) -> list[Any]:
    return [pytest.param(*one, id=" ".join(one[0])) for one in each]


def test_the_commands_are_those_of_the_reference() -> None:
    assert {" ".join(path) for path, _ in LEAVES} == {
        "scheduler", "status", "top", "explain", "policy show", "policy set", "policy cap",
        "tenants list", "tenants weight", "tenants cap", "tenants pause", "tenants resume",
        "queues list", "queues pause", "queues resume", "dlq list", "dlq show", "dlq requeue",
        "dlq purge",
        "cancel", "purge", "drain", "doctor", "verify", "flower", "produce", "replay", "demo",
    }  # fmt: skip


@pytest.mark.parametrize(("path", "command"), named(LEAVES))
def test_every_command_prints_json(path: tuple[str, ...], command: click.Command) -> None:
    assert any("--json" in param.opts for param in command.params)


@pytest.mark.parametrize(("path", "command"), named(EVERY))
def test_every_help_has_an_example(path: tuple[str, ...], command: click.Command) -> None:
    text = CliRunner().invoke(main, [*path, "--help"]).output
    _, found, examples = text.partition("\nExample")
    assert found
    assert f"  tq {path[0]}" in examples


@pytest.mark.parametrize(("path", "command"), named([((), main), *EVERY]))
def test_every_option_has_a_variable(path: tuple[str, ...], command: click.Command) -> None:
    for param in command.params:
        if isinstance(param, click.Option):
            assert isinstance(param.envvar, str), param.name
            assert param.envvar.startswith("TQ_"), param.name


def test_no_two_options_of_a_command_share_a_variable() -> None:
    for path, command in LEAVES:
        used = [p.envvar for p in command.params if isinstance(p, click.Option)]
        assert len(used) == len(set(used)), path


@pytest.mark.parametrize(("path", "command"), named(EVERY))
def test_every_variable_of_an_option_is_no_unknown_setting(
    path: tuple[str, ...], command: click.Command
) -> None:
    from tq_celery.settings import Settings

    for param in command.params:
        if isinstance(param, click.Option) and param.envvar != "TQ_URL":
            name = str(param.envvar).removeprefix("TQ_").lower()
            if name not in Settings.names():
                Settings.load(environ={str(param.envvar): "1"})


def test_the_table_of_commands_says_what_their_help_says() -> None:
    for name, entry in main.lazy.items():
        assert len(entry.help) < 60
        assert dict(EVERY)[(name,)].help


def test_help_loads_no_command() -> None:
    code = (
        "import sys; from click.testing import CliRunner; from tq_celery.cli import main; "
        "print(CliRunner().invoke(main, ['--help']).exit_code, "
        "[m for m in sys.modules if m.startswith(('tq_celery.cli.', 'tq_celery.replay', 'rich'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    code, _, modules = done.stdout.partition(" ")
    assert code == "0"
    assert set(ast.literal_eval(modules)) == {"tq_celery.cli.groups", "tq_celery.cli.root"}


def test_no_arguments_show_the_help() -> None:
    assert "Commands:" in CliRunner().invoke(main, []).output


def test_both_entry_points_name_the_command() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))
    groups = (project["project"]["scripts"], project["project"]["entry-points"]["celery.commands"])
    for points in groups:
        assert pkgutil.resolve_name(points["tq"]) is main
