"""Settings: where they come from, what wins, and what a mistake says."""

from __future__ import annotations

import dataclasses
import json
import ssl
from pathlib import Path
from typing import Any

import celery
import pytest

from tq_celery.errors import SettingsError
from tq_celery.setting_checks import did_you_mean, parse_duration, safe_url
from tq_celery.settings import Settings
from tq_celery.store.urls import parse_url

#: For every setting: good values with their normal form, and values that are refused.
CASES: dict[str, tuple[list[tuple[object, object]], list[object]]] = {
    "url": (
        [(u, u) for u in ("redis://h/1", "rediss://h", "unix:///s", "sentinel://a,b/m")],
        ["", "localhost", "http://h", "redis://", 5, None],
    ),
    "ssl": (
        [
            ({}, {}),
            ('{"ssl_ca_certs": "/ca"}', {"ssl_ca_certs": "/ca"}),
            ({"ssl_cert_reqs": ssl.CERT_NONE}, {"ssl_cert_reqs": "CERT_NONE"}),
            ({"ssl_check_hostname": False}, {"ssl_check_hostname": "false"}),
        ],
        [[], "{", {"ca_certs": "/ca"}, {1: "x"}, 5, None],
    ),
    "namespace": ([("a.b-c", "a.b-c"), ("n" * 128, "n" * 128)], ["", "a{b", "a b", "n" * 129, 1]),
    "policy": ([(p, p) for p in ("fifo", "priority", "edf", "wfq", "none")], ["WFQ", "", 1, None]),
    "order_within": ([("deadline", "deadline")], ["fifo", 0]),
    "ageing": (
        [(None, None), ("none", None), (0.001, 0.001), (1e7, 1e7), (30, 30.0), ("5m", 300.0)],
        [0, 0.0009, 1.1e7, -1, float("nan"), True, "soon", ""],
    ),
    "lease": (
        [(0.5, 0.5), (30, 30.0), ("500ms", 0.5), ("2m", 120.0)],
        [0.4, 86_401, float("nan"), float("inf"), True, "soon", None],
    ),
    "leader_ttl": ([(0.2, 0.2), (60, 60.0)], [0.19, 61, -1]),
    "leader_replicas": ([(0, 0), ("2", 2)], [-1, 101, "some"]),
    "delivery_budget": ([(1, 1), ("7", 7), (1000, 1000)], [0, 1001, 2.0, True, "x", None]),
    "done_memory": ([(0, 0.0), ("1h", 3600.0)], [-1]),
    "done_max": ([(0, 0)], [-1, 1.5]),
    "max_pending": ([(None, None), (1, 1), ("none", None)], [0, -1, "many"]),
    "max_pending_queue": ([(None, None), (1, 1)], [0]),
    "max_pending_tenant": ([(None, None), (1, 1)], [0]),
    "max_payload": ([(1, 1), (512 * 1_048_576, 512 * 1_048_576)], [0, 512 * 1_048_576 + 1, None]),
    "publish_timeout": ([(0.05, 0.05)], [0.01, 4000]),
    "on_unavailable": ([("raise", "raise"), ("broker", "broker")], ["", "ignore", None, True]),
    "fraction": (
        [(0, 0.0), (1, 1.0), ("0.25", 0.25)],
        [-0.1, 1.01, float("nan"), True, "half", "1.5", None],
    ),
    "default_tenant": ([("é" * 128, "é" * 128), (" x\n", " x\n")], ["", "é" * 129, b"x"]),
    "batch": ([(1, 1), (500, 500)], [0, 501]),
    "results_maxlen": ([(None, None), (1, 1)], [0, -1]),
    "dead_maxlen": ([(None, None), (1, 1)], [0]),
    "max_running": ([(None, None), (1, 1)], [0]),
    "log_format": ([("json", "json"), ("text", "text")], ["JSON", "", True, None]),
    "metrics_port": (
        [("off", "off"), ("auto", "auto"), (9101, 9101), ("9102", 9102), (65535, 65535), (1, 1)],
        [0, 65_536, -1, "on", "", "99999", ":9101", 9101.0, True, None],
    ),
    "metrics_tenants": ([(0, 0), (1000, 1000), ("5", 5)], [-1, 1001, None]),
    "tracing": ([("off", "off"), ("on", "on")], ["yes", True, "", None]),
    "routes": (
        [({}, {}), ('{"a.*": {"tenant": "x"}}', {"a.*": {"tenant": "x"}})],
        [[], "{", {"a": 1}, {1: {}}, {"": {}}],
    ),
}


def test_every_setting_has_cases() -> None:
    assert tuple(CASES) == Settings.names()


@pytest.mark.parametrize(
    ("name", "given", "normal"),
    [(name, given, normal) for name, (good, _) in CASES.items() for given, normal in good],
)
def test_good_values(name: str, given: Any, normal: object) -> None:
    value = getattr(Settings(**{name: given}), name)
    assert (value, type(value)) == (normal, type(normal))


@pytest.mark.parametrize(
    ("name", "given"), [(name, given) for name, (_, bad) in CASES.items() for given in bad]
)
def test_bad_values_name_the_field_the_value_and_the_range(name: str, given: Any) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings(**{name: given})
    assert caught.value.name.startswith(f"tq_{name}")
    assert caught.value.allowed
    assert f"tq_{name}" in str(caught.value)


def test_messages_read_well() -> None:
    def message(**wrong) -> str:
        with pytest.raises(SettingsError) as caught:
            Settings(**wrong)
        return str(caught.value)

    assert message(lease=0.1) == (
        "tq_lease: 0.1 is not allowed; expected a number of seconds from 0.5 to 86400"
    )
    assert message(policy="wqf").endswith(
        "expected one of fifo, priority, edf, wfq, none; did you mean 'wfq'?"
    )
    assert message(max_pending=0).endswith("a whole number from 1 up, or None for no bound")
    assert message(routes={"a.*": {"tennant": "x"}}).endswith("did you mean 'tenant'?")
    assert "did you mean 'redis'" in message(url="rdis://host")


def test_a_lease_is_not_shorter_than_a_leaders_renewal() -> None:
    assert Settings(lease=0.5, leader_ttl=2.0).lease == 0.5
    with pytest.raises(SettingsError, match="at least a quarter of tq_leader_ttl"):
        Settings(lease=0.5, leader_ttl=2.1)


def test_frozen_and_copied() -> None:
    routes = {"a": {"cost": 2.0}}
    settings = Settings(routes=routes)
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.batch = 1  # type: ignore[misc]
    routes["a"]["cost"] = 9.0
    assert settings.routes == {"a": {"cost": 2.0}}
    assert dataclasses.replace(settings, batch=7).batch == 7
    assert json.loads(json.dumps(dataclasses.asdict(settings)))["batch"] == 256
    assert hash(settings) == hash(Settings())


def test_credentials_never_show() -> None:
    secret = "redis://user:hunter2@host/0"
    assert "hunter2" not in repr(Settings(url=secret))
    with pytest.raises(SettingsError) as caught:
        Settings(url=secret.replace("redis:", "rdis:"))
    assert "hunter2" not in str(caught.value) + repr(caught.value.value)


def test_later_sources_win(tmp_path: Path) -> None:
    toml = tmp_path / "tq.toml"
    toml.write_text(
        'batch = 2\nlease = "20s"\nleader_ttl = 3.0\ndone_max = 5\nnamespace = "file"\n'
    )

    def load(conf, environ, **explicit) -> Settings:
        return Settings.load(conf, environ, toml=toml, defaults={"max_payload": 99}, **explicit)

    settings = load(
        {"tq_lease": 21, "tq_leader_ttl": 4, "tq_done_max": 6, "task_acks_late": True},
        {"TQ_LEADER_TTL": "5", "TQ_DONE_MAX": "7", "PATH": "x"},
        done_max=8,
        namespace=None,
    )
    assert settings.max_payload == 99
    assert settings.batch == 2
    assert settings.lease == 21.0
    assert settings.leader_ttl == 5.0
    assert settings.done_max == 8
    assert settings.namespace == "file"


def test_an_explicit_none_is_a_value_only_where_none_is_one() -> None:
    settings = Settings.load(environ={"TQ_MAX_PENDING": "3"}, max_pending=None, batch=None)
    assert (settings.max_pending, settings.batch) == (None, 256)


def test_the_environment_is_read_as_text() -> None:
    settings = Settings.load(
        environ={
            "TQ_URL": "redis://e/2",
            "TQ_MAX_PENDING_TENANT": "1_000",
            "TQ_LEASE": "2m",
            "TQ_AGEING": "30s",
            "TQ_RESULTS_MAXLEN": "none",
            "TQ_ROUTES": '{"r.*": {"cost": 3}}',
            "TQ_BATCH": "",
        }
    )
    assert settings.url == "redis://e/2"
    assert settings.max_pending_tenant == 1000
    assert settings.lease == 120.0
    assert settings.ageing == 30.0
    assert settings.results_maxlen is None
    assert settings.routes == {"r.*": {"cost": 3}}
    assert settings.batch == 256


def test_unknown_names_say_what_was_probably_meant(tmp_path: Path) -> None:
    toml = tmp_path / "tq.toml"
    toml.write_text("batchh = 2\n")
    for load in (
        lambda: Settings.load({"tq_batchh": 1}, {}),
        lambda: Settings.load({}, {"TQ_BATCHH": "1"}),
        lambda: Settings.load({}, {}, batchh=1),
        lambda: Settings.from_toml(toml),
    ):
        with pytest.raises(SettingsError, match=r"(?i)unknown setting.*did you mean '(TQ_)?batch'"):
            load()


def test_names_of_others_in_the_environment_are_left_alone() -> None:
    environ = {
        "TQ_APP": "proj",
        "TQ_JSON": "1",
        "TQ_REPLAY_SPEEDUP": "4",
        "TQ_POLICY_SET": "x",
        "TQ_TEST_REQUIRE_ALL": "1",
        "TQ_SERVICE_HOST": "10.0.0.1",
        "TQ_PORT_6379_TCP": "tcp://10.0.0.1:6379",
        "TQ_METRICS_SERVICE_PORT_HTTP": "80",
        "TQ_METRICS_PORT": "tcp://10.0.0.2:9101",
    }
    assert Settings.load(environ=environ) == Settings()


def test_files_may_use_a_table_and_say_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "tq.toml"
    path.write_text('[tq]\nbatch = 9\n[tq.routes."a.*"]\ntenant = "x"\n')
    settings = Settings.from_toml(path)
    assert (settings.batch, settings.routes) == (9, {"a.*": {"tenant": "x"}})
    path.write_text("batch = = 9\n")
    with pytest.raises(SettingsError, match=r"expected TOML \(.*line 1"):
        Settings.from_toml(path)
    with pytest.raises(SettingsError, match="No such file"):
        Settings.from_toml(tmp_path / "nowhere.toml")


def test_a_real_application_configures_with_and_without_a_prefix() -> None:
    app = celery.Celery("proj", set_as_current=False)
    app.conf.tq_lease = 12
    app.conf.update(tq_batch=3)
    loaded = Settings.load(app.conf, {}, defaults={"namespace": app.main})
    assert (loaded.lease, loaded.batch, loaded.namespace) == (12.0, 3, "proj")
    app.conf.tq_leese = 1
    with pytest.raises(SettingsError, match="did you mean 'tq_lease'"):
        Settings.load(app.conf, {})

    class Django:
        CELERY_TQ_LEASE = 13
        CELERY_TASK_ACKS_LATE = True
        TQ_UNRELATED = "not under the prefix"

    app = celery.Celery("site", set_as_current=False)
    app.config_from_object(Django, namespace="CELERY")
    assert Settings.load(app.conf, {}).lease == 13.0

    class Mistyped:
        CELERY_TQ_LEESE = 13

    app = celery.Celery("site", set_as_current=False)
    app.config_from_object(Mistyped, namespace="CELERY")
    with pytest.raises(SettingsError, match="did you mean 'tq_lease'"):
        Settings.load(app.conf, {})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 30.0),
        ("30s", 30.0),
        ("500ms", 0.5),
        ("1.5h", 5400.0),
        ("2d", 172_800.0),
        (" 5 m ", 300.0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1s", "1 week", "1s2", "nan", "1,5s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="write 30s"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("redis://h:1/0", "redis://h:1/0"),
        ("redis://:pw@h/0", "redis://***@h/0"),
        ("redis://:p@w/#?@h/0", "redis://***@h/0"),
        ("sentinel://u:p@a,b/m?sentinel_password=x&db=1", "sentinel://***@a,b/m?sentinel_password=***&db=1"),
        ("unix://:pw@/run/s?password=x", "unix://***@/run/s?password=***"),
        ("user:pw@host", "***"),
    ],
)  # fmt: skip
def test_safe_urls(url: str, safe: str) -> None:
    assert safe_url(url) == safe


def test_hints_only_for_what_is_close() -> None:
    assert did_you_mean("bach", ["batch", "lease"]) == "; did you mean 'batch'?"
    assert did_you_mean("zzz", ["batch"]) == ""


def test_tls_options_join_the_url_that_every_client_is_made_from() -> None:
    settings = Settings(
        url="rediss://:p%3F@h/2?ssl_ca_certs=/own",
        ssl={"ssl_ca_certs": "/ca", "ssl_certfile": "/a b", "ssl_cert_reqs": ssl.CERT_REQUIRED},
    )
    assert parse_url(settings.url).options == {
        "ssl_ca_certs": "/own", "ssl_certfile": "/a b", "ssl_cert_reqs": "required",
    }  # fmt: skip
    assert dataclasses.replace(settings).url == settings.url
    with pytest.raises(SettingsError, match="only with rediss"):
        parse_url(Settings(ssl={"ssl_ca_certs": "/ca"}).url)
    with pytest.raises(SettingsError, match="did you mean 'ssl_keyfile'"):
        Settings(ssl={"ssl_keyfle": "/k"})
