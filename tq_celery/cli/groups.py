"""Click classes that every command shares.

Global options are accepted before and after the command's name, as in ``kubectl``; the one closest
to the command wins. Whatever goes wrong ends as one line on stderr and exit code 2.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import IO, Any, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from tq_celery.errors import StoreUnavailableError, TQError

__all__ = [
    "GLOBAL_OPTIONS",
    "CommandError",
    "Lazy",
    "LazyGroup",
    "NounGroup",
    "TQCommand",
    "option",
    "plain_errors",
]

Function = TypeVar("Function", bound=Callable[..., Any])

#: Exit code of everything that keeps a command from doing what it was asked.
FAILURE = 2


class CommandError(click.ClickException):
    """A command cannot do what it was asked; shown as one line."""

    exit_code = FAILURE

    def show(self, file: IO[Any] | None = None) -> None:
        """Write the message as one line, whatever it contains."""
        click.echo("tq: " + " ".join(self.format_message().split()), file=file, err=file is None)


def option(*names: str, **attributes: Any) -> Callable[[Function], Function]:
    """Return ``click.option`` that shows its environment variable in the help."""
    attributes.setdefault("show_envvar", True)
    return click.option(*names, **attributes)


class Given(click.Option):
    """A global option. Its value goes to the session instead of to the command's function.

    A flag that was typed is passed on from any level. The environment counts only where nothing
    was typed, and not for settings (``--url``, ``--namespace``), which read it themselves.
    """

    SETTINGS = ("url", "namespace")

    def __init__(self, names: list[str], **attributes: Any) -> None:
        attributes |= {"expose_value": False, "callback": self.remember, "show_envvar": True}
        super().__init__(names, **attributes)

    @staticmethod
    def remember(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        """Note the value in ``ctx.meta``, which a context shares with its children."""
        given: dict[str, Any] = ctx.meta.setdefault("tq.given", {})
        assert param.name is not None
        typed = ctx.get_parameter_source(param.name) is ParameterSource.COMMANDLINE
        if typed or (value and param.name not in given and param.name not in Given.SETTINGS):
            given[param.name] = value
        return value


GLOBAL_OPTIONS: tuple[Callable[[], Given], ...] = (
    lambda: Given(
        ["--url"],
        envvar="TQ_URL",
        metavar="URL",
        help="Server: redis://, rediss://, unix:// or sentinel:// (default redis://localhost:6379/0).",
    ),
    lambda: Given(
        ["--namespace"],
        envvar="TQ_NAMESPACE",
        metavar="NAME",
        help="Namespace on the server (default: the app's name, or celery).",
    ),
    lambda: Given(
        ["-A", "--app"],
        envvar="TQ_APP",
        metavar="MODULE",
        help="Celery application whose tq_* settings are read.",
    ),
    lambda: Given(
        ["--config"],
        envvar="TQ_CONFIG",
        metavar="FILE",
        help="TOML file with settings; the app's settings, TQ_* and flags win over it.",
    ),
    lambda: Given(
        ["--json"], envvar="TQ_JSON", is_flag=True, help="Print one JSON document instead of text."
    ),
)


@contextmanager
def plain_errors() -> Any:
    """Turn every error a user can cause or meet into a :class:`CommandError`."""
    try:
        yield
    except CommandError:
        raise
    except click.UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            raise
        hint = f" (see '{error.ctx.command_path} --help')" if error.ctx else ""
        raise CommandError(error.format_message().rstrip(".") + hint) from error
    except click.ClickException as error:
        raise CommandError(error.format_message()) from error
    except StoreUnavailableError as error:
        raise CommandError(f"the server does not answer ({error})") from error
    except TQError as error:
        raise CommandError(str(error)) from error
    except UnicodeEncodeError as error:
        told = f"the output is {error.encoding}, which lacks characters that are needed: use UTF-8"
        raise CommandError(told) from error
    except OSError as error:
        if error.errno == errno.EPIPE:  # whoever read the output has seen enough
            raise
        raise CommandError(str(error)) from error
    except Exception as error:
        # Imported by whoever raised it; a help page should not pay for loading redis.
        exceptions = sys.modules.get("redis.exceptions")
        if exceptions is not None and isinstance(error, exceptions.RedisError):
            raise CommandError(str(error) or type(error).__name__) from error
        raise


class Helpful(click.Command):
    """Help with the command's own options, the global ones apart, and examples at the end."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in two sections."""
        own: list[tuple[str, str]] = []
        common: list[tuple[str, str]] = []
        for param in self.get_params(ctx):
            row = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if row is not None:
                (common if isinstance(param, Given) else own).append(row)
        for title, rows in (("Options", own), ("Global options", common)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples as they would be typed."""
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples" if len(self.examples) > 1 else "Example"):
                for line in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


class TQCommand(Helpful):
    """A command with the global options."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(make() for make in GLOBAL_OPTIONS)


class NounGroup(Helpful, click.Group):
    """A group of verbs for one noun, such as ``tq tenants``."""

    command_class = TQCommand

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, then the verbs."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


class Lazy(NamedTuple):
    """Where a command lives (``module:attribute``) and its one-line help."""

    target: str
    help: str


class LazyGroup(Helpful, click.Group):
    """The top group: imports a command's file when that command is asked for."""

    def __init__(self, *args: Any, lazy: Mapping[str, Lazy], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = lazy
        self.params.extend(make() for make in GLOBAL_OPTIONS)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of the table."""
        return [*self.lazy, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command; names the missing package when an extra is not installed."""
        entry = self.lazy.get(cmd_name)
        if entry is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = entry.target.partition(":")
        try:
            command = getattr(import_module(module), attribute)
        except ModuleNotFoundError as error:
            raise CommandError(
                f"{cmd_name} needs {error.name!r}, which is not installed"
            ) from error
        assert isinstance(command, click.Command)
        return command

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the global options, then the commands, without importing them."""
        super().format_options(ctx, formatter)
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in self.lazy.items()])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse this level's flags, with plain errors."""
        guard: AbstractContextManager[None] = plain_errors()
        with guard:
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Parse and run the command, with plain errors."""
        guard: AbstractContextManager[None] = plain_errors()
        with guard:
            return super().invoke(ctx)
