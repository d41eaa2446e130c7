"""Starts Flower with the Scheduler page, as ``celery flower`` starts it without."""

from __future__ import annotations

import atexit
import signal
from collections.abc import Sequence
from typing import Any

from flower import command
from flower.app import Flower, rewrite_handler
from flower.options import default_options
from flower.urls import settings as flower_settings
from tornado.web import StaticFileHandler, url

from tq_celery.errors import SettingsError
from tq_celery.flower.api import ACTIONS, Actions, DeadLetterInfo, Readings, Unknown
from tq_celery.flower.desk import Desk
from tq_celery.flower.loader import STATIC, Templates
from tq_celery.flower.pages import Broker, QueueLengths, SchedulerData, SchedulerPage
from tq_celery.setting_checks import did_you_mean
from tq_celery.settings import Settings

__all__ = ["check", "handlers", "serve"]


def check(arguments: Sequence[str]) -> None:
    """Raise SettingsError for an argument that Flower would ignore without a word."""
    for argument in arguments:
        word, equals, _ = argument.partition("=")  # what follows may be a password
        name = word.removeprefix("--")
        if not word.startswith("--") or name not in default_options:
            hint = did_you_mean(name.replace("-", "_"), default_options)
            raise SettingsError("flower", word, f"an option of Flower's, --name=value{hint}")
        if not equals and not isinstance(default_options[name], bool):
            raise SettingsError("flower", word, f"{word}=VALUE")


def serve(capp: Any, settings: Settings, arguments: Sequence[str], quiet: bool = False) -> None:
    """Run Flower for the application until it is stopped; ``arguments`` are Flower's own."""
    check(arguments)
    desk = Desk(settings)
    command.apply_env_options()
    command.apply_options("tq flower", list(arguments))
    command.extract_settings()
    command.setup_logging()
    templates = Templates(flower_settings["template_path"])
    flower = Flower(
        capp=capp, options=default_options, **flower_settings, template_loader=templates
    )
    flower.add_handlers(r".*", handlers(default_options, desk))
    atexit.register(flower.stop)
    signal.signal(signal.SIGTERM, command.sigterm_handler)
    try:
        port = flower.start_http_server()
    except OSError as error:
        raise SettingsError(
            "port", default_options.port, f"a port that is free ({error})"
        ) from None
    if not quiet:
        command.print_banner(capp, "ssl_options" in flower_settings, port)
    try:
        flower.start()
    except (KeyboardInterrupt, SystemExit):
        pass
    finally:
        desk.close()


def handlers(options: Any, desk: Desk | None) -> list[url]:
    """Return the page and the API; where a path is one of Flower's, ours comes first."""
    ours, actions = {"desk": desk}, "|".join(ACTIONS)
    found = [
        url(r"/scheduler", SchedulerPage, ours, name="scheduler"),
        url(r"/scheduler/data", SchedulerData, ours, name="scheduler-data"),
        url(r"/scheduler/static/(.*)", StaticFileHandler, {"path": str(STATIC)}),
        url(r"/broker", Broker, ours),
        url(r"/api/queues/length", QueueLengths, ours),
        url(r"/api/tq/(overview|queues|workers|tenants|dead)", Readings, ours),
        url(rf"/api/tq/({actions})", Actions, ours),
        url(r"/api/tq/dead/([^/]+)", DeadLetterInfo, ours),
        url(r"/api/tq(?:/.*)?", Unknown, ours),
    ]
    prefix = options.url_prefix
    return [rewrite_handler(each, prefix) for each in found] if prefix else found
