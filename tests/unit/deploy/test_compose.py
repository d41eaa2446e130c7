"""The compose files: commands and settings that exist, containers that may do little.

No engine is asked; the files are merged here as it would do it.

Seen to fail: with a misspelt option and a misspelt variable, a port published everywhere, a part
without ``read_only``, one address for two servers, a load for other slots than there are.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any

import click
import pytest
from celery.bin.celery import celery as celery_command

from tests.unit.deploy.compose import FILES, merged, services, words
from tests.unit.deploy.queries import ROOT
from tq_celery.cli import main
from tq_celery.settings import Settings
from tq_celery.store.urls import parse_url

#: Services that run the project's image.
OURS = {"scheduler", "worker", "flower", "producer"}

EVERY = [(kind, name) for kind, files in FILES.items() for name in services(*files)]
EVERY_OF_OURS = [(kind, name) for kind, name in EVERY if name in OURS]
SENTINELS = services(*FILES["sentinels"])
DATA = ("redis", "replica-1", "replica-2")


def option(service: dict[str, Any], name: str) -> str:
    """Return the value behind a flag of a server's command."""
    command: list[str] = service["command"]
    return command[command.index(name) + 1]


@pytest.mark.parametrize("kind, name", EVERY)
def test_a_service_is_pinned_and_watched_and_started_again(kind: str, name: str) -> None:
    service = services(*FILES[kind])[name]
    assert re.search(r":[\w.-]+$", service["image"]), "an image without a tag is another tomorrow"
    assert not service["image"].endswith(":latest")
    if name == "producer":
        assert service["profiles"] == ["producer"], "starts when asked for"
        assert service["healthcheck"] == {"disable": True}
        assert service["restart"] == "no"
    else:
        assert service["restart"] == "unless-stopped"
        in_image = "build" in service and "HEALTHCHECK" in dict(instructions(service["build"]))
        assert "test" in service.get("healthcheck", {}) or in_image


@pytest.mark.parametrize("kind, name", EVERY)
def test_nothing_is_published_beyond_this_machine(kind: str, name: str) -> None:
    for port in services(*FILES[kind])[name].get("ports", []):
        assert port.startswith("127.0.0.1:")


@pytest.mark.parametrize("kind, name", EVERY_OF_OURS)
def test_the_parts_may_do_little(kind: str, name: str) -> None:
    service = services(*FILES[kind])[name]
    assert service["read_only"] is True
    assert service["tmpfs"] == ["/tmp"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "user" not in service, "the image's own, which is not root"
    assert service["build"] == {"context": ".", "dockerfile": "deploy/docker/Dockerfile"}


@pytest.mark.parametrize("kind, name", EVERY_OF_OURS)
def test_the_settings_of_a_part_are_settings(kind: str, name: str) -> None:
    service = services(*FILES[kind])[name]
    settings = Settings.load(environ=service["environment"])
    assert settings.namespace == "demo"
    assert settings.lease == 10.0
    hosts = {host for host, _ in parse_url(settings.url).hosts}
    assert hosts <= set(services(*FILES[kind])), "no such service"
    broker = parse_url(service["environment"]["CELERY_BROKER_URL"])
    assert {host for host, _ in broker.hosts} <= set(services(*FILES[kind]))


@pytest.mark.parametrize("name", sorted(OURS))
def test_the_command_of_a_part_exists_with_its_options(name: str) -> None:
    first, *rest = words(services("docker-compose.yml")[name])
    command: click.Command = {"tq": main, "celery": celery_command}[first]
    known = {opt for param in command.params for opt in param.opts}
    while isinstance(command, click.Group):
        group, context = command, click.Context(command)
        sub = next(word for word in rest if group.get_command(context, word))
        rest.remove(sub)
        found = group.get_command(context, sub)
        assert found is not None
        command = found
        known |= {opt for param in command.params for opt in param.opts}
        if command.context_settings.get("ignore_unknown_options"):
            return  # its options are Flower's own
    unknown = [word for word in rest if word.startswith("--") and word.split("=")[0] not in known]
    assert not unknown


def test_the_scheduler_and_worker_are_asked_where_they_listen() -> None:
    for name in ("scheduler", "worker"):
        service = services("docker-compose.yml")[name]
        port = service["environment"]["TQ_METRICS_PORT"]
        assert service["healthcheck"]["test"][-1] == f"http://localhost:{port}/readyz"
        assert service["deploy"]["replicas"] == 2


def test_the_producer_offers_a_load_for_the_slots_that_there_are() -> None:
    both = services("docker-compose.yml")
    slots = both["producer"]["command"][both["producer"]["command"].index("--slots") + 1]
    (each,) = re.findall(r"--concurrency=(\d+)", " ".join(both["worker"]["command"]))
    assert int(slots) == int(each) * both["worker"]["deploy"]["replicas"]


# --- the server ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, kind", [("redis", "one server"), *((name, "sentinels") for name in DATA)]
)
def test_a_server_keeps_what_it_has(name: str, kind: str) -> None:
    service = services(*FILES[kind])[name]
    assert option(service, "--appendonly") == "yes"
    assert option(service, "--maxmemory-policy") == "noeviction"
    (volume,) = service["volumes"]
    assert volume == f"{name}:/data"
    assert name in merged(*FILES[kind])["volumes"]


@pytest.mark.parametrize("name", DATA)
def test_each_of_three_servers_may_become_the_primary(name: str) -> None:
    assert option(SENTINELS[name], "--min-replicas-to-write") == "1"
    assert "--replicaof" not in SENTINELS[name]["command"], "it would be one again at each start"


def role(name: str) -> str:
    """Return the file that a server begins with, which is kept in its volume."""
    (file,) = (word for word in SENTINELS[name]["command"] if word.endswith(".conf"))
    folder, _, file = file.rpartition("/")
    assert f"{name}:{folder}" in SENTINELS[name]["volumes"]
    return (ROOT / SENTINELS[name]["build"]["context"] / file).read_text("utf-8")


def test_addresses_are_their_own_and_in_the_network() -> None:
    (config,) = merged(*FILES["sentinels"])["networks"]["default"]["ipam"]["config"]
    network = ipaddress.ip_network(config["subnet"])
    handed_out = ipaddress.ip_network(config["ip_range"])
    addresses = [
        ipaddress.ip_address(SENTINELS[name]["networks"]["default"]["ipv4_address"])
        for name in DATA
    ]
    assert len(set(addresses)) == 3
    for address in addresses:
        assert address in network
        assert address not in handed_out


def test_sentinels_watch_the_primary_and_a_majority_decides() -> None:
    (text,) = {role(f"sentinel-{number}") for number in (1, 2, 3)}
    monitor = re.search(r"^sentinel monitor (\S+) (\S+) (\d+) (\d+)$", text, re.MULTILINE)
    assert monitor
    target = parse_url(SENTINELS["scheduler"]["environment"]["TQ_URL"])
    assert monitor.groups() == (
        target.master,
        SENTINELS["redis"]["networks"]["default"]["ipv4_address"],
        "6379",
        str(len(target.hosts) // 2 + 1),
    )
    assert not re.search("^replicaof ", role("redis"), re.MULTILINE)
    for name in DATA[1:]:
        assert f"\nreplicaof {monitor[2]} 6379\n" in role(name)


# --- the image -----------------------------------------------------------------------------------


def instructions(build: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the lines of a Dockerfile: the instruction, and the rest."""
    text = (ROOT / build["context"] / build["dockerfile"]).read_text("utf-8")
    text = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    lines = [line.split(None, 1) for line in text.splitlines() if line.strip()]
    return [(line[0], " ".join(line[1].split())) for line in lines]


IMAGE = services("docker-compose.yml")["worker"]["build"]
SERVER = SENTINELS["sentinel-1"]["build"]


def last_stage(build: dict[str, Any]) -> list[tuple[str, str]]:
    lines = instructions(build)
    return lines[max(i for i, (word, _) in enumerate(lines) if word == "FROM") :]


@pytest.mark.parametrize("build, user", [(IMAGE, "10001:10001"), (SERVER, "999:1000")])
def test_an_image_is_not_root_and_has_no_shell_before_its_process(
    build: dict[str, Any], user: str
) -> None:
    lines = last_stage(build)
    assert ("USER", user) in lines
    for word, rest in lines:
        if word in ("CMD", "ENTRYPOINT"):
            assert rest.startswith("[")
        if word == "HEALTHCHECK":
            assert " CMD [" in rest


def test_the_image_is_small() -> None:
    bases = [rest for word, rest in instructions(IMAGE) if word == "FROM"]
    assert bases == ["python:${PYTHON}-slim AS build", "python:${PYTHON}-slim"]
    assert not [rest for word, rest in last_stage(IMAGE) if word == "RUN" and "pip" in rest]


def copied(build: dict[str, Any]) -> set[str]:
    return {
        source
        for word, rest in instructions(build)
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
        if not source.startswith("--")
    }


def test_an_image_is_built_from_what_its_folder_hands_over() -> None:
    handed = {
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines()
        if line.startswith("!")
    }
    assert copied(IMAGE) == handed
    for build in (IMAGE, SERVER):
        folder = ROOT / build["context"]
        assert folder == ROOT or not (folder / ".dockerignore").exists()
        for source in copied(build):
            assert (folder / source).exists()
