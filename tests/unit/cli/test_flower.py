"""``tq flower``: what it refuses before Flower starts; the rest is tested where Flower runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType

import pytest
from celery import Celery

APP = ("-A", "application_for_flower")


@pytest.fixture(autouse=True)
def _application(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType(APP[1])
    vars(module)["app"] = Celery("seen", broker="memory://", set_as_current=False)
    monkeypatch.setitem(sys.modules, APP[1], module)


def test_it_needs_an_application(refused: Callable[..., str]) -> None:
    assert refused("flower") == "tq: flower needs a Celery application: tq -A proj flower"


def test_it_needs_the_extra(refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("tq_celery.flower.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "flower", None)
    said = refused("flower", *APP)
    assert said.endswith("which is not installed: pip install 'tq-celery[flower]'")
    assert said.startswith("tq: flower needs 'flower")


@pytest.mark.parametrize("url", ["http://host", "redis://host:port/0", "redis://host/name"])
def test_a_url_that_cannot_be_one_ends_it_at_the_start(
    refused: Callable[..., str], url: str
) -> None:
    """Seen to fail with a connection made at the first question: the page alone said it."""
    assert refused("flower", *APP, "--url", url).startswith("tq: tq_url: ")


@pytest.mark.parametrize(
    ("argument", "word", "allowed"),
    [
        ("--prot=1", "--prot", "an option of Flower's, --name=value; did you mean 'port'?"),
        ("5555", "5555", "an option of Flower's, --name=value"),
        ("--port", "--port", "--port=VALUE"),
        ("--basicauth=me:secret", "--basicauth",
         "an option of Flower's, --name=value; did you mean 'basic_auth'?"),
    ],
)  # fmt: skip
def test_what_flower_would_ignore_is_refused(
    refused: Callable[..., str], argument: str, word: str, allowed: str
) -> None:
    """Flower drops an option that it does not know without a word; a password is never shown."""
    said = refused("flower", *APP, argument)
    assert said == f"tq: flower: {word!r} is not allowed; expected {allowed}"
