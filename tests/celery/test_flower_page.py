"""The Scheduler page and its API in a real Flower, asked as a browser and a program ask."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest
from tornado.web import create_signed_value

from tests.celery.flower_lab import flower_lab
from tests.servers import ValkeyServer
from tests.unit.cli.conftest import Space, space

__all__ = ["space"]

pytestmark = pytest.mark.slow

OPEN = {"FLOWER_UNAUTHENTICATED_API": "true"}


def test_the_page_shows_and_the_api_acts(
    tmp_path: Path, server: ValkeyServer, space: Space, wait_until
) -> None:
    """What is written is seen by the next question, on the page's data and on the API alike."""
    entry = space.bury("worker lost", tenant=b"unlucky", queue="doomed")
    space.submit(9, tenant=b"flood")
    space.submit(1, tenant=b"quiet")
    space.admit_all()
    with flower_lab(tmp_path, server, space.settings.namespace, **OPEN) as flower:
        page = flower.ask("/scheduler")
        assert page.status == 200
        assert 'aria-current="page">Scheduler</a>' in page.text
        for word in ("css", "js"):
            found = re.search(rf'"(/scheduler/static/scheduler\.{word}\?v=\w{{8}})"', page.text)
            assert found, word
            assert flower.ask(found[1]).status == 200
        for path in ("/", "/workers", "/tasks", "/broker"):
            assert '/scheduler"' in flower.ask(path).text, f"{path} has the link"

        found = flower.ask("/scheduler/data?limit=2").json
        assert found == {**flower.ask("/api/tq/overview?limit=2").json, "now": found["now"]}
        assert [each["tenant"] for each in found["tenants"]] == ["flood", "quiet"]
        assert (found["found"], found["dead"]) == (3, 1)
        assert [each["entry"] for each in found["letters"]] == [entry]
        assert flower.ask(f"/api/tq/dead/{entry}").json["task"] == "proj.add"

        assert flower.ask("/api/tq/dead/requeue", {"entry": entry}).json["outcome"] == "requeued"
        assert flower.ask("/api/tq/dead").json == {"dead": 0, "entries": []}
        actions = {
            "tenants/weight": {"tenant": "quiet", "weight": "4"},
            "tenants/pause": {"tenant": "flood"},
            "queues/pause": {"queue": "work"},
        }
        for action, values in actions.items():
            assert flower.ask(f"/api/tq/{action}", values).status == 200
        tenants = {each["tenant"]: each for each in flower.ask("/api/tq/tenants").json["tenants"]}
        assert tenants["quiet"]["weight"] == 4
        assert tenants["flood"]["paused"]
        queues = {each["queue"]: each for each in flower.ask("/api/tq/queues").json["queues"]}
        assert (queues["work"]["paused"], queues["doomed"]["paused"]) == (True, False)
        assert space.client.hget(space.key("weights"), "quiet") == b"4.0"

        for path, form, status, said in (
            ("/api/tq/dead/requeue", {"entry": entry}, 404, f"no such dead letter: {entry}"),
            ("/api/tq/dead/requeue", {}, 400, "entry: missing; expected in the body"),
            (
                "/api/tq/tenants/weight",
                {"tenant": "quiet", "weight": "x"},
                400,
                "weight: 'x' is not",
            ),
            ("/api/tq/tenants?sort=age", None, 400, "sort: 'age' is not allowed; expected waiting"),
            (
                "/api/tq/tenants?limit=-1",
                None,
                400,
                "limit: '-1' is not allowed; expected 0 to 1000",
            ),
            (f"/api/tq/tenants?limit={'9' * 5000}", None, 400, "limit: '999"),
            (f"/api/tq/dead/{2**64}-0", None, 400, f"entry: '{2**64}-0' is not a dead letter's"),
            (f"/api/tq/dead/{2**64 - 1}-0", None, 404, "no such dead letter: "),
            ("/api/tq/dead/none", None, 400, "entry: 'none' is not a dead letter's entry"),
            ("/api/tq/nothing", None, 404, "no such path of the API: /api/tq/nothing"),
            ("/api/tq", {"a": "b"}, 404, "no such path of the API: /api/tq"),
            ("/api/tq/tenants/pause", {"tenant": "x" * 257}, 400, "tenant: a tenant has 1 to 256"),
            ("/api/tq/queues/resume", {"queue": "nope"}, 404, "no such queue: nope never took"),
        ):
            refused = flower.ask(path, form)
            assert refused.status == status, path
            assert refused.json["error"].startswith(said)
        assert flower.ask("/api/tq/queues/pause").status == 405


def test_the_broker_page_has_true_lengths(
    tmp_path: Path, server: ValkeyServer, space: Space, wait_until
) -> None:
    """mher/flower #473: 7 delayed, 5 ranked, 3 dispatched and 2 running tasks of one queue."""
    namespace, work = space.settings.namespace, "work"
    space.submit(2)
    space.serve(slots=5, lease=600_000)
    space.rounds(lambda: space.client.xlen(space.store.keys.of_queue("exec", work)) == 2, "2 out")
    assert len(space.store.read("w1", {work: 2}, 0)) == 2
    space.submit(3)
    space.rounds(lambda: space.client.xlen(space.store.keys.of_queue("exec", work)) == 5, "5 out")
    space.serve(slots=0, lease=600_000)
    space.submit(5)
    space.admit_all()
    space.submit(7, delay=600_000)
    broker = server.url.replace("/0", "/9")
    options = {**OPEN, "broker": broker}
    with flower_lab(tmp_path, server, namespace, **options) as flower:
        rows = flower.ask("/api/queues/length").json["active_queues"]
        row = next(each for each in rows if each["name"] == work)
        assert row["messages"] == row["messages_ready"] == 5
        assert row["messages_unacknowledged"] == 5
        assert row["scheduled"] == {"waiting": 5, "delayed": 7, "in_flight": 5}
        page = " ".join(flower.ask("/broker").text.split())
        start = page.index('<tr id="work">')
        cells = page[start : page.index("</tr>", start)].split("<td")
        values = [each.partition(">")[2].partition("<")[0] for each in cells[1:]]
        assert values[:5] == ["work", "5", "5", "5", "1"]
        for key in space.client.scan_iter(match=f"tq:{{{namespace}}}:*"):
            space.client.delete(key)

        def names() -> list[str]:
            found = flower.ask("/api/queues/length").json["active_queues"]
            return [each["name"] for each in found]

        wait_until(lambda: names() == ["celery"], "the queue is gone")
        assert flower.ask("/broker").status == 200


def test_a_broker_that_flower_cannot_ask_and_a_server_that_is_away(
    tmp_path: Path, make_server, namespace: str, wait_until
) -> None:
    """mher/flower #473: no page fails, each says what is wrong and goes on when it is right."""
    server: ValkeyServer = make_server()
    with flower_lab(tmp_path, server, namespace, **OPEN) as flower:
        assert flower.ask("/broker").status == 200
        assert flower.ask("/api/queues/length").json == {"active_queues": []}
        server.stop()
        wait_until(lambda: flower.ask("/api/tq/queues").status == 503, "it is noticed")
        said = flower.ask("/api/tq/overview")
        assert said.status == 503
        assert said.json["error"].startswith("the server does not answer (")
        assert flower.ask("/scheduler").status == 200
        page = flower.ask("/broker")
        assert page.status == 200
        assert "without scheduled tasks: " in page.text
        assert flower.ask("/api/queues/length").status == 503
        assert flower.ask("/api/tq/queues/pause", {"queue": "work"}).status == 503
        server.start()
        wait_until(lambda: flower.ask("/scheduler/data").status == 200, "it is there again")


def test_without_a_login_the_page_is_open_and_the_api_is_not(
    tmp_path: Path, server: ValkeyServer, space: Space
) -> None:
    space.submit()
    namespace = space.settings.namespace
    with flower_lab(tmp_path, server, namespace) as flower:
        assert flower.ask("/scheduler").status == 200
        assert flower.ask("/scheduler/data").status == 200
        for path, form in (
            ("/api/tq/overview", None),
            ("/api/tq/tenants/pause", {"tenant": "acme"}),
        ):
            refused = flower.ask(path, form)
            assert refused.status == 401
            assert "FLOWER_UNAUTHENTICATED_API" in refused.json["error"]
    assert not space.client.exists(space.key("paused_tenants"))


def test_behind_a_password(tmp_path: Path, server: ValkeyServer, space: Space) -> None:
    """Seen to fail with handlers that leave out Flower's own check of who asks."""
    space.submit()
    name, pause = {"tenant": "acme"}, "/api/tq/tenants/pause"
    apis = ("/api/tq/overview", "/api/tq/tenants", "/api/tq/dead", "/api/queues/length")
    login = {"Authorization": "Basic " + base64.b64encode(b"me:secret").decode()}
    namespace = space.settings.namespace
    with flower_lab(tmp_path, server, namespace, "--basic_auth=me:secret") as flower:
        for path in ("/scheduler", "/scheduler/data", "/broker", *apis):
            assert flower.ask(path).status == 401, path
            assert flower.ask(path, headers=login).status == 200, path
        assert flower.ask(pause, name).status == 401
        for foreign in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://elsewhere.example"}):
            assert flower.ask(pause, name, {**login, **foreign}).status == 403
        assert not space.client.exists(space.key("paused_tenants"))
        assert flower.ask(pause, name, login).status == 200
        assert space.client.smembers(space.key("paused_tenants")) == {b"acme"}


def test_behind_a_login_an_action_needs_the_pages_own_token(
    tmp_path: Path, server: ValkeyServer, space: Space
) -> None:
    """Seen to fail with a handler whose check_xsrf_cookie does nothing."""
    space.submit()
    name, pause = {"tenant": "acme"}, "/api/tq/tenants/pause"
    user = create_signed_value("a secret", "user", "me@example.com").decode()
    options = [
        "--auth=me@example.com", "--auth_provider=flower.views.auth.GithubLoginHandler",
        "--oauth2_key=k", "--oauth2_secret=s", "--oauth2_redirect_uri=http://127.0.0.1/login",
        "--cookie_secret=a secret",
    ]  # fmt: skip
    namespace = space.settings.namespace
    with flower_lab(tmp_path, server, namespace, *options) as flower:
        for path in ("/scheduler/data", "/api/tq/overview", "/api/tq/dead"):
            refused = flower.ask(path)
            assert refused.status == 401
            assert refused.json["error"] == "not signed in, or no longer: load the page again"
        cookie = {"Cookie": f"user={user}"}
        page = flower.ask("/scheduler", headers=cookie)
        assert page.status == 200
        token = page.headers["Set-Cookie"].partition("_xsrf=")[2].partition(";")[0]
        assert flower.ask(pause, name, cookie).status == 403
        cookie = {"Cookie": f"user={user}; _xsrf={token}"}
        assert flower.ask(pause, name, cookie).status == 403
        assert not space.client.exists(space.key("paused_tenants"))
        assert flower.ask(pause, name, {**cookie, "X-XSRFToken": token}).status == 200
        assert space.client.exists(space.key("paused_tenants"))


def test_read_only_and_under_a_prefix(tmp_path: Path, server: ValkeyServer, space: Space) -> None:
    space.submit()
    options = ("--read_only=true", "--url_prefix=watch")
    namespace = space.settings.namespace
    with flower_lab(tmp_path, server, namespace, *options, prefix="/watch", **OPEN) as flower:
        page = flower.ask("/scheduler").text
        assert 'data-read-only="1"' in page
        assert 'data-api="/watch/api/tq/"' in page
        assert flower.ask("/scheduler/static/scheduler.js").status == 200
        assert flower.ask("/scheduler/data").json["tenants"][0]["tenant"] == "acme"
        refused = flower.ask("/api/tq/tenants/pause", {"tenant": "acme"})
        assert (refused.status, refused.json) == (403, {"error": "Flower is in read-only mode"})
    assert not space.client.exists(space.key("paused_tenants"))
