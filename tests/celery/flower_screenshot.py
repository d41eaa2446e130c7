"""Takes the picture of the Scheduler page for the documents, with a flood on it.

::

    python -m tests.celery.flower_screenshot docs/images/flower-scheduler.png

Schedulers, worker and Flower are real; the picture is of what they do at that moment.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.celery.browser import browser
from tests.celery.flower_flood import LOUD, QUIET, Flood, flood
from tests.waiting import wait_until

#: Tasks of each quiet tenant that have to have ended: percentiles of fewer say little.
SERVED = 40


def settled(running: Flood) -> bool:
    """Tell whether every tenant has waits to show."""
    tenants: dict[str, Any] = {each["tenant"]: each for each in running.seen()["tenants"]}
    return all(name in tenants and tenants[name]["served"] >= SERVED for name in (LOUD, *QUIET))


def main(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, flood(Path(folder), 5_000) as running:
        wait_until(lambda: settled(running), "every tenant was served", 60, 0.5)
        with browser(1280, 800) as (page, errors):
            page.goto(running.flower.base + "/scheduler")
            page.locator("#tq-letters button").wait_for()
            page.screenshot(path=path, full_page=True)
        assert not errors, errors
    print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
