"""Debian's chromium without a screen, driven by playwright, and what goes wrong in its pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.servers import Unavailable

if TYPE_CHECKING:
    from playwright.sync_api import ConsoleMessage, Page

#: How long a test waits for what a page has to show, ms: the machine may be busy.
PATIENCE = 30_000


class Browsing(NamedTuple):
    """A page, and what its console and its requests complained of."""

    page: Page
    errors: list[str]


def find() -> str:
    """Return the program, or raise Unavailable."""
    if find_spec("playwright") is None:
        raise Unavailable("playwright is not installed (pip install playwright)")
    found = shutil.which("chromium")
    if found is None:
        raise Unavailable("chromium is not installed (Debian: apt-get install chromium)")
    return found


@contextmanager
def browser(width: int = 1280, height: int = 900, **options: Any) -> Iterator[Browsing]:
    """Open a page with nothing in it; ``options`` are those of a browser's context."""
    program = find()
    from playwright.sync_api import expect, sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, timeout=60_000)
        page = chromium.new_page(viewport={"width": width, "height": height}, **options)
        page.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        errors: list[str] = []

        def note(said: ConsoleMessage) -> None:
            if said.type == "error":
                errors.append(said.text)

        page.on("console", note)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("requestfailed", lambda request: errors.append(f"no answer: {request.url}"))
        try:
            yield Browsing(page, errors)
        finally:
            chromium.close()
