"""Clients: every URL form, credentials that stay secret, and reads that may block."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from urllib.parse import quote

import pytest
import redis

from tests.servers import SentinelServer, Unavailable, ValkeyServer
from tests.waiting import BUSY, wait_until
from tq_celery.embedded import EmbeddedServer, free_port
from tq_celery.errors import SettingsError, StoreUnavailableError
from tq_celery.settings import Settings
from tq_celery.store.client import Clients, connect
from tq_celery.store.contract import Limits, Submission
from tq_celery.store.producers import Producers
from tq_celery.store.record import TaskKey
from tq_celery.store.urls import Target, parse_url

PASSWORD = "p@s:s/w#r?d%2F&=é "


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("redis://h", Target(hosts=(("h", 6379),))),
        ("redis://h:7/3", Target(hosts=(("h", 7),), db=3)),
        ("redis://h:7?db=4", Target(hosts=(("h", 7),), db=4)),
        ("redis://[::1]:7/3", Target(hosts=(("::1", 7),), db=3)),
        ("redis://u:p%40@h", Target(hosts=(("h", 6379),), username="u", password="p@")),
        ("redis://:p@h", Target(hosts=(("h", 6379),), password="p")),
        ("unix:///run/v.sock?db=2", Target(path="/run/v.sock", db=2)),
        ("redis+socket:///run/v.sock?virtual_host=/2", Target(path="/run/v.sock", db=2)),
        (
            "redis://app:p@ss/w:rd#1@h:7/2",
            Target(hosts=(("h", 7),), db=2, username="app", password="p@ss/w:rd#1"),
        ),
        (
            "redis://app:p%40ss%2Fw%3Ard%231@h:7/2",
            Target(hosts=(("h", 7),), db=2, username="app", password="p@ss/w:rd#1"),
        ),
        ("redis://:100%@h", Target(hosts=(("h", 6379),), password="100%")),
        ("redis://:a%2525@h", Target(hosts=(("h", 6379),), password="a%25")),
        ("unix://:p@/run/v.sock", Target(path="/run/v.sock", password="p")),
        (
            "rediss://h?ssl_cert_reqs=CERT_NONE",
            Target(
                hosts=(("h", 6379),),
                tls=True,
                options={"ssl_cert_reqs": "none", "ssl_check_hostname": False},
            ),
        ),
        (
            "sentinel://u:p@a:1,b/m?db=5&sentinel_password=s&ssl=true",
            Target(
                hosts=(("a", 1), ("b", 26379)),
                master="m",
                db=5,
                username="u",
                password="p",
                tls=True,
                sentinel_login={"password": "s"},
            ),
        ),
    ],
)
def test_url_forms(url: str, target: Target) -> None:
    assert parse_url(url) == target


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("localhost:6379", "redis://host:port/db"),
        ("amqp://h", "redis://host:port/db"),
        ("redis://h:port", "port from 1 to 65535"),
        ("redis://h:0", "port from 1 to 65535"),
        ("redis://[::1", "port from 1 to 65535"),
        ("redis://h/first", "database number"),
        ("redis://a,b", "several need sentinel://"),
        ("sentinel://a,b", "master's name"),
        ("unix://relative", "absolute path"),
        ("redis://h?dbs=1", "did you mean 'db'"),
        ("redis://h?ssl_ca_certs=x", "only with rediss://"),
        ("rediss://h?ssl_cert_reqs=maybe", "required, optional or none"),
        ("redis://h#x", "percent-encoded"),
        ("redis://:se?cret@h", "percent-encoded"),
    ],
)
def test_wrong_urls_say_what_is_expected_and_hide_credentials(url: str, says: str) -> None:
    with pytest.raises(SettingsError) as caught:
        connect(url)
    assert caught.value.name == "tq_url"
    assert says in str(caught.value)
    assert "cret" not in str(caught.value)


def test_a_password_of_special_characters_and_a_database_number() -> None:
    with EmbeddedServer(config={"requirepass": PASSWORD}) as server:
        login = f":{quote(PASSWORD, safe='')}@"
        with connect(f"redis://{login}127.0.0.1:{server.port}/9") as client:
            client.set("k", b"\xff\x00")
            assert client.get("k") == b"\xff\x00"
        with connect(f"redis://{login}127.0.0.1:{server.port}/0") as client:
            assert client.get("k") is None
        with connect(f"redis://:wrong@127.0.0.1:{server.port}/0") as client:
            with pytest.raises(redis.exceptions.AuthenticationError) as caught:
                client.ping()
        assert "wrong" not in str(caught.value).replace("WRONGPASS", "")


def test_a_socket_under_both_names(tmp_path: Path) -> None:
    path = tmp_path / "v.sock"
    with EmbeddedServer(config={"unixsocket": str(path)}):
        for url in (f"unix://{path}?db=1", f"redis+socket://{path}?virtual_host=1"):
            with connect(url) as client:
                client.incr("k")
        with connect(f"unix://{path}?db=1") as client:
            assert client.get("k") == b"2"


def test_sentinels_lead_to_the_master(tmp_path: Path) -> None:
    """Seen to fail while a producer's connection went to localhost:6379 instead."""
    try:
        binary = SentinelServer.find()
    except Unavailable as missing:
        pytest.skip(str(missing))
    with EmbeddedServer(config={"requirepass": PASSWORD}) as server:
        file = tmp_path / "sentinel.conf"
        file.write_text(
            f"sentinel monitor main 127.0.0.1 {server.port} 1\n"
            f'sentinel auth-pass main "{PASSWORD}"\n'
        )
        watch = SentinelServer(binary=binary, config_file=file)
        with watch:
            login = f":{quote(PASSWORD, safe='')}@"
            dead = free_port()  # one sentinel of two is away
            url = f"sentinel://{login}127.0.0.1:{dead},127.0.0.1:{watch.port}/main?db=3"
            with connect(url, timeout=1.0) as client:
                client.set("k", 1)
            producers = Producers(Settings(url=url, namespace="n"))
            producers.submit(Submission(TaskKey("t"), "q", b"a", b"{}", bytes(16)), Limits())
            producers.close()
            with connect(f"redis://{login}127.0.0.1:{server.port}/3") as client:
                assert client.get("k") == b"1"
                assert client.xlen("tq:{n}:ingress") == 1


def test_sentinels_that_do_not_answer_are_named() -> None:
    hosts = f"127.0.0.1:{free_port()}, 127.0.0.1:{free_port()}"
    url = f"sentinel://{hosts.replace(' ', '')}/main"
    producers = Producers(Settings(url=url, namespace="n", publish_timeout=0.2))
    with pytest.raises(StoreUnavailableError) as caught:
        producers.submit(Submission(TaskKey("t"), "q", b"a", b"{}", bytes(16)), Limits())
    assert str(caught.value) == f"submit: No master found for 'main'; no answer from {hosts}"


def test_a_blocking_read_outlasts_the_timeout_and_is_sent_once(server: ValkeyServer) -> None:
    """A read that blocks longer than the reply timeout returns empty, in time, after one command.

    redis/redis-py #2807: with that library's defaults the same read raised after a minute, having
    been sent ten times.
    """
    with connect(server.url, timeout=0.3, blocking=0.6) as client:
        before = client.info("commandstats").get("cmdstat_xread", {"calls": 0})["calls"]
        started = time.monotonic()
        assert not client.xread({"nothing-here": "$"}, block=600)
        assert 0.55 < time.monotonic() - started < 0.6 + BUSY
        assert client.info("commandstats")["cmdstat_xread"]["calls"] == before + 1


def test_a_silent_server_fails_a_blocking_client_once_and_in_time(make_server) -> None:
    server = make_server()
    with connect(server.url, timeout=0.3, blocking=0.2, retries=50) as client:
        assert client.ping()
        server.pause()
        started = time.monotonic()
        with pytest.raises(redis.exceptions.TimeoutError):
            client.ping()
        assert time.monotonic() - started < 0.5 + BUSY, "fifty tries take longer"
        server.resume()


def test_retries_bridge_a_restart(make_server) -> None:
    server = make_server(appendonly=True)
    with connect(server.url, retries=0) as hasty, connect(server.url, retries=40) as patient:
        assert hasty.ping()
        assert patient.ping()
        server.kill()
        with pytest.raises(redis.exceptions.ConnectionError):
            hasty.ping()
        later = threading.Timer(0.3, server.start)
        later.start()
        assert patient.ping()
        later.join()
        assert hasty.ping()


def test_one_client_per_kind_and_process(server: ValkeyServer) -> None:
    clients = Clients(server.url)
    assert clients.get() is clients.get()
    assert clients.get() is not clients.get(blocking=1.0)
    connection = clients.get().client_id()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, str(clients.get().client_id()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert int(os.read(reader, 100)) != connection
    os.close(reader)
    os.close(writer)
    assert clients.get().client_id() == connection, "the child left its parent's connection alone"
    clients.close()
    with server.client() as looker:
        wait_until(
            lambda: all(int(c["id"]) != connection for c in looker.client_list()),
            "the connection is closed",
        )
    assert clients.get().ping()
    clients.close()


def test_nothing_printable_holds_the_password() -> None:
    url = "redis://:hunter2@127.0.0.1:1/0"
    for thing in (Clients(url), parse_url(url), connect(url, timeout=0.2)):
        assert "hunter2" not in repr(thing)
    with pytest.raises(redis.exceptions.ConnectionError) as caught:
        connect(url, timeout=0.2).ping()
    assert "hunter2" not in str(caught.value)
