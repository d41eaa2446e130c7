"""Every client comes from one place: the same URL reaches producers, worker, scheduler, commands.

celery/kombu #1494: one client forgot the prefix, and control was dead for a user with an ACL.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
import pytest

from tests.celery.deployment import APART, COMMANDS, Deployment, plain
from tests.celery.worker_lab import ROOT
from tests.servers import SentinelServer, Unavailable, ValkeyServer
from tests.waiting import wait_until
from tq_celery.cli import main
from tq_celery.embedded import EmbeddedServer

PASSWORD = "p@ss/w:rd#1"
ENCODED = quote(PASSWORD, safe="")
#: What a user with ``-@dangerous`` is refused, and what is done without it: ``tq doctor`` knows
#: less of the server, and a worker's read ends by its time.
DONE_WITHOUT = {"info", "config|get", "client|unblock"}


@pytest.fixture
def deploy(tmp_path: Path) -> Iterator[Callable[..., Deployment]]:
    made: list[Deployment] = []

    def make(url: str, **options: Any) -> Deployment:
        made.append(Deployment(url, tmp_path, **options))
        return made[-1]

    yield make
    for deployment in made:
        deployment.close()


def celery_on(server: ValkeyServer) -> dict[str, str]:
    """Return addresses of Celery's own on a server that has nothing special."""
    return {
        "broker": plain(server, 1), "backend": plain(server, 2), "runs": plain(server, 3),
    }  # fmt: skip


def keeps_secrets(deployment: Deployment) -> None:
    """Nothing that anybody prints has the password in it, in any form."""
    deployment.close()
    printed = [*deployment.said, deployment.logs(), repr(deployment.app.tq.settings)]
    for text in printed:
        assert PASSWORD not in text
        assert ENCODED not in text


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "pool"), [("valkey", "threads"), ("redis", "prefork")])
def test_a_user_with_only_its_prefix_and_no_dangerous_command(
    make_server: Any, deploy: Any, kind: str, pool: str
) -> None:
    """The server keeps a log of what it refused this user; Celery's own keys have the prefix too.

    Kombu subscribes by pattern, which the server compares letter by letter with what is allowed,
    so the two patterns of a broker are named. The broker's address has the password encoded, as
    kombu wants it; ours has it as it is.
    """
    server = make_server(kind)
    with server.client() as admin:
        admin.execute_command(
            "ACL", "SETUSER", "app", "on", f">{PASSWORD}", "~tq:*", "&tq:*", "+@all", "-@dangerous",
            "&tq:broker:/1.celery.pidbox", "&tq:broker:/1.celeryev/worker.*",
        )  # fmt: skip
        place = f"127.0.0.1:{server.port}"
        deployment = deploy(
            f"redis://app:{PASSWORD}@{place}/0",
            broker=f"redis://app:{ENCODED}@{place}/1",
            backend=f"redis://app:{ENCODED}@{place}/2",
            runs=plain(server, 3),
            broker_transport_options={"global_keyprefix": "tq:broker:"},
            result_backend_transport_options={"global_keyprefix": "tq:results:"},
            worker_send_task_events=True,
        )
        deployment.start(pool)
        deployment.exercise()
        inspect = deployment.app.control.inspect(timeout=30, limit=1)
        (stats,) = inspect.stats().values()
        assert stats["tq"]["worker"]
        assert "does not tell" in deployment.command("doctor")
        keeps_secrets(deployment)
        refused = {entry["object"] for entry in admin.acl_log()}
        assert refused <= DONE_WITHOUT
        prefixes = {key.split(b"{")[0] for key in admin.keys("*")}
        assert prefixes == {b"tq:"}
        wait_until(lambda: not admin.hlen("tq:{lab}:announcements"), "the worker withdrew")


@pytest.mark.slow
def test_one_database_for_everything(make_server: Any, deploy: Any, tmp_path: Path) -> None:
    """The scheduler's Redis, the broker and the backend are the same database, ours by a socket."""
    path = tmp_path / "v.sock"
    server = make_server("valkey", config={"unixsocket": str(path)})
    place = plain(server, 0)
    deployment = deploy(f"unix://{path}", broker=place, backend=place, runs=plain(server, 3))
    deployment.start("threads")
    deployment.exercise()


@pytest.mark.slow
def test_a_cluster_of_one_node(make_server: Any, deploy: Any) -> None:
    """All keys of a namespace are in one slot; the broker is on another server, as SELECT is not
    there."""
    server = make_server("redis", config={"cluster-enabled": "yes"})
    with server.client() as client:
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_until(lambda: b"cluster_state:ok" in client.execute_command("CLUSTER", "INFO"), "ok")
    deployment = deploy(plain(server, 0), **celery_on(make_server("valkey")))
    deployment.start("threads")
    deployment.exercise()
    assert "keep it at one node" in deployment.command("doctor")


@pytest.mark.parametrize("kind", ["valkey", pytest.param("redis", marks=pytest.mark.slow)])
def test_a_node_that_has_not_the_namespace_is_refused_in_one_line(
    make_server: Any, kind: str
) -> None:
    """Seen to fail as "3432 127.0.0.1:7001", which is all that redis-py keeps of it."""
    one, two = (make_server(kind, config={"cluster-enabled": "yes"}) for _ in range(2))
    with one.client() as first, two.client() as second:
        slot = first.execute_command("CLUSTER", "KEYSLOT", "tq:{lab}:")
        first.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        first.execute_command("CLUSTER", "MEET", "127.0.0.1", two.port)
        name = second.execute_command("CLUSTER", "MYID")
        wait_until(
            lambda: b"cluster_known_nodes:2" in first.execute_command("CLUSTER", "INFO"), "they met"
        )
        wait_until(lambda: name in first.execute_command("CLUSTER", "NODES"), "its name is known")
        first.execute_command("CLUSTER", "SETSLOT", slot, "NODE", name)
        wait_until(
            lambda: b"cluster_state:ok" in first.execute_command("CLUSTER", "INFO"), "it serves"
        )
    for command in ("scheduler", "status", "doctor"):
        result = _tq(command, url=one.url)
        assert result.exit_code == 2
        (line,) = result.stderr.strip().splitlines()
        assert "a cluster of several nodes is not supported" in line


def _tq(*command: str, url: str) -> Any:
    from click.testing import CliRunner

    return CliRunner().invoke(main, ["--url", url, "--namespace", "lab", *command])


@pytest.mark.parametrize("command", ["scheduler", "status", "doctor", "policy show"])
@pytest.mark.parametrize("written", [f"wrong{PASSWORD}", f"wrong{ENCODED}"])
def test_a_refused_login_is_one_line_without_the_password(
    server: ValkeyServer, command: str, written: str
) -> None:
    result = _tq(*command.split(), url=f"redis://app:{written}@127.0.0.1:{server.port}/0")
    assert result.exit_code == 2
    assert len(result.stderr.strip().splitlines()) == 1
    assert "ss/w" not in result.output + result.stderr
    assert ENCODED not in result.output + result.stderr


def test_every_command_is_tried_with_such_a_server() -> None:
    """A new command joins the list, or is tested apart."""

    def leaves(group: click.Group, prefix: str = "") -> Iterator[str]:
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if isinstance(command, click.Group):
                yield from leaves(command, f"{prefix}{name} ")
            else:
                yield prefix + name

    untried = {
        name
        for name in leaves(main)
        if name not in APART and not any(f"{line} ".startswith(f"{name} ") for line in COMMANDS)
    }
    assert untried == set()


def test_clients_and_names_of_keys_are_made_in_one_place_each() -> None:
    """Seen to fail with a client made by ``from_url``, and with a key written out in a script."""
    for path in (ROOT / "tq_celery").rglob("*.*"):
        if path.suffix not in (".py", ".lua"):
            continue
        text = path.read_text("utf-8")
        code = re.sub(r'"""(?s:.*?)"""|``.*?``|^\s*(#|--).*$', "", text, flags=re.MULTILINE)
        if path.name != "client.py":
            made = re.findall(r"from_url\(|\bredis\.Redis\((?!connection_pool=)|Sentinel\(", code)
            assert made == [], f"{path}: {made}"
        if path.name != "keys.py":
            named = re.findall(r"[\"']tq:\{.*", code)
            assert named == [], f"{path}: {named}"


# --- TLS -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate authority, and certificates of a server and of a client that it signed."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed (Debian: apt-get install openssl)")
    folder = tmp_path_factory.mktemp("tls")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl(
        "req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.crt", "-days", "2", "-subj",
        "/CN=tests", "-addext", "keyUsage=critical,keyCertSign",
    )  # fmt: skip
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    for name in ("server", "client"):
        openssl(
            "req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}"
        )
        openssl(
            "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-out",
            f"{name}.crt", "-days", "2", "-extfile", "names",
        )  # fmt: skip
    return folder


@pytest.fixture
def tls_server(make_server: Any, certificates: Path) -> Any:
    """A server that wants TLS with a client's certificate on the port after its plain one."""
    options = {
        "tls-port": "0", "tls-cert-file": str(certificates / "server.crt"),
        "tls-key-file": str(certificates / "server.key"),
        "tls-ca-cert-file": str(certificates / "ca.crt"), "tls-auth-clients": "yes",
    }  # fmt: skip
    server = make_server("redis")
    with server.client() as client:
        try:
            for name, value in options.items():
                if name != "tls-port":
                    client.config_set(name, value)
            from tq_celery.embedded import free_port

            server.tls_port = free_port()
            client.config_set("tls-port", str(server.tls_port))
        except Exception as error:
            if "Unknown" in str(error):
                pytest.skip("redis-server is built without TLS")
            raise
    return server


@pytest.mark.slow
def test_tls_with_a_clients_certificate_reaches_every_client(
    tls_server: Any, certificates: Path, deploy: Any
) -> None:
    """Options of the address and of ``tq_ssl``, in producers, scheduler, commands, the worker's
    thread, and the process that renews its lease: while a task holds the interpreter's lock for two
    leases, only that process can. Seen to fail with the options kept from that process."""
    deployment = deploy(
        f"rediss://127.0.0.1:{tls_server.tls_port}/0?ssl_ca_certs={certificates}/ca.crt",
        settings={
            "ssl": {
                "ssl_certfile": f"{certificates}/client.crt",
                "ssl_keyfile": f"{certificates}/client.key",
            }
        },
        **celery_on(tls_server),
    )
    deployment.start("threads")
    with tls_server.client() as looker:
        ours = [c for c in looker.client_list() if c["db"] == "0" and c["id"] != looker.client_id()]
        assert len(ours) >= 5
    deployment.app.tasks["hog"].delay(4.5).get(timeout=30)
    deployment.exercise()
    with tls_server.client() as looker:
        places = {c["laddr"].rpartition(":")[2] for c in looker.client_list() if c["db"] == "0"}
        assert places - {str(tls_server.port)} == {str(tls_server.tls_port)}
    starts = [note for note in deployment.runs() if note["kind"] == "start"]
    assert len([note for note in starts if "retries" not in note]) == 1, "hog was run once"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("", "CERTIFICATE_VERIFY_FAILED"),
        ("ssl_cert_reqs=none", "does not answer"),
        ("ssl_ca_certs={0}/none.crt", "none.crt' is not allowed; expected a file that can be read"),
        ("ssl_ca_certs={0}/names", "does not answer"),
    ],
)
def test_what_is_wrong_with_tls_is_said_in_one_line(
    tls_server: Any, certificates: Path, options: str, says: str
) -> None:
    url = f"rediss://127.0.0.1:{tls_server.tls_port}/0?{options.format(certificates)}"
    for command in ("scheduler", "status"):
        result = _tq(command, url=url)
        assert result.exit_code == 2, result.output
        assert len(result.stderr.strip().splitlines()) == 1
        assert says.lower() in result.stderr.lower()


@pytest.mark.slow
def test_sentinels_with_a_password_of_their_own(
    make_server: Any, deploy: Any, tmp_path: Path
) -> None:
    try:
        binary = SentinelServer.find()
    except Unavailable as missing:
        pytest.skip(str(missing))
    with EmbeddedServer(config={"requirepass": PASSWORD}) as master:
        file = tmp_path / "sentinel.conf"
        file.write_text(
            f"sentinel monitor main 127.0.0.1 {master.port} 1\n"
            f'sentinel auth-pass main "{PASSWORD}"\nrequirepass "{PASSWORD}"\n'
        )
        with SentinelServer(binary=binary, config_file=file, password=PASSWORD) as watch:
            url = (
                f"sentinel://:{ENCODED}@127.0.0.1:{watch.port}/main?db=3"
                f"&sentinel_password={ENCODED}"
            )
            deployment = deploy(url, **celery_on(make_server("valkey")))
            deployment.start("threads")
            deployment.exercise()
            keeps_secrets(deployment)
