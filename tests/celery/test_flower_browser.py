"""The Scheduler page in a real browser: what its script shows, and what a click does."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tornado.web import create_signed_value

from tests.celery.browser import browser, find
from tests.celery.flower_flood import LOUD, QUIET, WORKER, flood
from tests.celery.flower_lab import flower_lab
from tests.servers import Unavailable
from tests.unit.cli.conftest import Space, space
from tq_celery.settings import Settings
from tq_celery.store.redis_store import RedisStore

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

__all__ = ["space"]

pytestmark = pytest.mark.slow

#: A login by cookie, where a page's actions need its token.
GITHUB = [
    "--auth=me@example.com", "--auth_provider=flower.views.auth.GithubLoginHandler",
    "--oauth2_key=k", "--oauth2_secret=s", "--oauth2_redirect_uri=http://127.0.0.1/login",
    "--cookie_secret=a secret",
]  # fmt: skip

#: What must be read and never be obeyed.
MARKUP = "<img src=x onerror=document.title='obeyed'><b>bold</b>"


@pytest.fixture(autouse=True)
def _chromium() -> None:
    try:
        find()
    except Unavailable as missing:
        pytest.skip(str(missing))


def row(page: Page, table: str, words: str) -> Locator:
    return page.locator(f"#{table} tr").filter(has_text=words)


def test_a_flood_is_seen_and_a_dead_letter_comes_back(tmp_path: Path, wait_until) -> None:
    """Real schedulers, worker and Flower. Seen to fail with a script that shows the data once."""
    from playwright.sync_api import expect

    with flood(tmp_path, 6_000) as running, browser() as (page, errors):
        page.goto(running.flower.base + "/scheduler")
        expect(page.locator("#tq-status")).to_contain_text("Live")
        expect(page.locator("#tq-leader")).not_to_have_text("none")
        expect(page.locator("#tq-standbys")).to_contain_text("1 standing by: ")
        expect(page.locator("#tq-notes")).to_be_empty()
        loud = page.locator("#tq-tenants tr").first
        pending = loud.locator("td").nth(2)
        expect(loud.locator("td").first).to_have_text(LOUD)
        expect(pending).to_have_text(re.compile(r"^\d{3,}$"))
        # none of it is loaded again: the numbers change under the reader's eyes
        first = pending.inner_text()
        expect(pending).not_to_have_text(first)
        assert int(pending.inner_text()) < int(first)
        for tenant in QUIET:
            share = row(page, "tq-tenants", tenant).locator("td").nth(4)
            expect(share).to_have_text(re.compile(r"[\d.]+ % / [\d.]+ %"))

        letter = row(page, "tq-letters", "shop.ship")
        expect(letter).to_contain_text(QUIET[-1])
        expect(letter).to_contain_text("delivery budget spent")
        letter.locator("summary").click()
        expect(letter.locator("pre")).to_contain_text('"task": "shop.ship"')
        running.mend()
        assert not running.shipped()
        letter.get_by_role("button", name="Requeue").click()
        expect(letter).to_have_count(0)
        expect(page.locator("#tq-letters")).to_have_text("No dead letters.")
        expect(page.locator("#tq-dead")).to_have_text("0")
        wait_until(running.shipped, "the order is shipped")
        assert errors == []

        # Flower's own pages beside it, with scheduled tasks in them
        for stock, shown in {
            "/": WORKER,
            "/workers": WORKER,
            f"/worker/{WORKER}": "celery",
            "/tasks": "shop.resize",
            "/broker": "celery",
        }.items():
            answer = page.goto(running.flower.base + stock)
            assert answer
            assert answer.status == 200, stock
            expect(page.locator("#main-content td", has_text=shown).first).to_be_attached()
            expect(page.get_by_role("link", name="Scheduler", exact=True)).to_be_visible()
        page.goto(running.flower.base + "/tasks")
        page.locator("td a[href*='/task/']").first.click()
        expect(page.locator("#main-content")).to_contain_text("shop.")
        assert errors == []


def test_names_are_read_and_never_obeyed(tmp_path: Path, server, space: Space) -> None:
    """Seen to fail with innerHTML for textContent in the page's script."""
    from playwright.sync_api import expect

    long = "x" * 256
    space.bury(MARKUP, tenant=MARKUP.encode(), queue=MARKUP)
    space.submit(2, tenant=MARKUP.encode(), queue=MARKUP)
    space.submit(1, tenant=long.encode(), queue=long)
    space.bury(long, tenant=long.encode(), queue=long)
    space.admit_all()
    login: Any = {"username": "me", "password": "secret"}
    namespace = space.settings.namespace
    with (
        flower_lab(tmp_path, server, namespace, "--basic_auth=me:secret") as flower,
        browser(http_credentials=login) as (page, errors),
    ):
        page.goto(flower.base + "/scheduler")
        for table in ("tq-queues", "tq-tenants", "tq-letters"):
            for name in (MARKUP, long):
                expect(row(page, table, name)).to_be_visible()
        assert page.locator("#scheduler img").count() == 0
        wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, "a long name makes nobody scroll sideways"
        tenant = row(page, "tq-tenants", MARKUP)
        tenant.get_by_role("button", name="Pause").click()
        expect(tenant.get_by_role("button", name="Resume")).to_be_visible()
        assert space.client.smembers(space.key("paused_tenants")) == {MARKUP.encode()}
        assert page.title() == "Scheduler · Flower"
        assert errors == []


def test_a_page_stays_open_whatever_the_server_does(
    tmp_path: Path, make_server, namespace: str
) -> None:
    """Signed in by cookie; nobody leads; then without its server, and with an emptied one."""
    from playwright.sync_api import Dialog, expect

    server = make_server()
    settings = Settings(url=server.url, namespace=namespace)
    with (
        flower_lab(tmp_path, server, namespace, *GITHUB) as flower,
        browser() as (page, errors),
    ):
        user = create_signed_value("a secret", "user", "me@example.com").decode()
        page.context.add_cookies([{"name": "user", "value": user, "url": flower.base}])
        page.goto(flower.base + "/scheduler")
        status, notes = page.locator("#tq-status"), page.locator("#tq-notes")
        expect(page.locator("#tq-queues")).to_have_text("No queue has taken a task yet.")
        expect(page.locator("#tq-tenants")).to_have_text("No tenant has work or settings.")
        expect(notes).to_contain_text("No scheduler leads: nothing is ranked or dispatched.")
        expect(notes).to_contain_text("No worker serves this namespace.")
        assert errors == []

        store = RedisStore.open(settings)
        space = Space(server, settings, store)
        space.submit(3)
        space.admit_all()
        tenant = row(page, "tq-tenants", "acme")
        weight, pending = (tenant.locator("td").nth(column) for column in (1, 2))
        expect(pending).to_have_text("3")
        for typed, shown in (("much", "1"), ("2.5", "2.5")):
            page.once("dialog", partial(Dialog.accept, prompt_text=typed))
            tenant.get_by_role("button", name="Weight").click()
            expect(weight).to_have_text(shown)
        said = page.get_by_role("alert")
        expect(said.filter(has_text="weight: 'much' is not allowed; expected")).to_be_visible()
        assert space.client.hget(space.key("weights"), "acme") == b"2.5"

        server.kill()
        expect(status).to_contain_text(re.compile(r"the server does not answer \(.*; trying again"))
        expect(pending).to_have_text("3")
        tenant.get_by_role("button", name="Pause").click()
        expect(said.filter(has_text="the server does not answer (")).to_be_visible()
        server.start()
        expect(status).to_contain_text("Live")
        expect(tenant).to_have_count(0)
        expect(page.locator("#tq-tenants")).to_have_text("No tenant has work or settings.")
        space.submit(2)
        space.admit_all()
        expect(pending).to_have_text("2")
        space.client.flushall()
        expect(page.locator("#tq-queues")).to_have_text("No queue has taken a task yet.")
        store.close()
        refused = "Failed to load resource: the server responded with a status of "
        assert {each.removeprefix(refused)[:3] for each in errors} == {"400", "503"}, errors
