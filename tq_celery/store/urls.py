"""Server URLs: taken apart and checked once, with messages that never show a credential.

============================================  ====================================================
``redis://[user:password@]host[:port][/db]``  TCP
``rediss://...``                              TLS; options ``ssl_ca_certs``, ``ssl_certfile``,
                                              ``ssl_keyfile``, ``ssl_cert_reqs``,
                                              ``ssl_check_hostname``
``unix:///path[?db=n]``                       a socket; ``redis+socket://`` is the same, as in kombu
``sentinel://h1[:port],h2/master[?db=n]``     the master that sentinels name; options ``ssl``,
                                              ``sentinel_username``, ``sentinel_password``
============================================  ====================================================

User and password may be percent-encoded, once. Written as they are, they may hold any sign but
``?``, and no ``%`` that looks like an encoding.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn
from urllib.parse import parse_qsl, unquote

from tq_celery.errors import SettingsError
from tq_celery.setting_checks import TLS_OPTIONS, URL_FORMS, did_you_mean, safe_url

__all__ = ["Target", "parse_url"]

_OPTIONS = ("db", "virtual_host", "client_name", *TLS_OPTIONS)
_SENTINEL_OPTIONS = ("ssl", "sentinel_username", "sentinel_password")
_TRUE = ("1", "true", "yes")


@dataclass(frozen=True)
class Target:
    """A parsed URL: where to connect and as whom. Secrets are not part of its ``repr``.

    ``options`` are arguments of a redis-py connection.
    """

    hosts: tuple[tuple[str, int], ...] = ()
    path: str = ""
    master: str = ""
    db: int = 0
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    tls: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    sentinel_login: dict[str, str] = field(default_factory=dict, repr=False)


def parse_url(url: str) -> Target:
    """Take a URL apart; SettingsError (without the credentials) says what is wrong with it."""
    try:
        return _parse(url)
    except ValueError as error:
        raise SettingsError("tq_url", safe_url(url), str(error)) from None


def _parse(url: str) -> Target:
    scheme, mark, rest = url.partition("://")
    if not mark or scheme not in ("redis", "rediss", "redis+socket", "unix", "sentinel"):
        raise ValueError(URL_FORMS)
    body, _, query = rest.partition("?")
    login, _, place = body.rpartition("@")
    if "#" in place or "@" in query:
        raise ValueError("user and password percent-encoded (? is %3F, @ is %40, # is %23)")
    sentinel = scheme == "sentinel"
    options = _query(query, _OPTIONS + (_SENTINEL_OPTIONS if sentinel else ()))
    db = options.pop("db", "") or options.pop("virtual_host", "").lstrip("/")
    options.pop("virtual_host", None)
    tls = options.pop("ssl", "").lower() in _TRUE or scheme == "rediss"
    asking = {
        name.removeprefix("sentinel_"): options.pop(name)
        for name in ("sentinel_username", "sentinel_password")
        if name in options
    }
    username, password = _login(login)
    return Target(
        username=username,
        password=password,
        tls=tls,
        sentinel_login=asking,
        options=_tls(options, tls),
        **_place(scheme, place, db),
    )


def _query(text: str, known: tuple[str, ...]) -> dict[str, str]:
    options = dict(parse_qsl(text, keep_blank_values=True))
    for name in options:
        if name not in known:
            raise ValueError(f"no option {name!r} in the query" + did_you_mean(name, known))
    return options


def _tls(given: dict[str, str], tls: bool) -> dict[str, Any]:
    options: dict[str, Any] = dict(given)
    if not tls and any(name.startswith("ssl_") for name in options):
        raise ValueError("ssl options only with rediss:// or, for sentinel://, ssl=true")
    if "ssl_cert_reqs" in options:
        # Celery's own URLs write CERT_NONE, redis-py's none.
        options["ssl_cert_reqs"] = options["ssl_cert_reqs"].lower().removeprefix("cert_")
        if options["ssl_cert_reqs"] not in ("required", "optional", "none"):
            raise ValueError("ssl_cert_reqs=required, optional or none")
    if "ssl_check_hostname" in options:
        options["ssl_check_hostname"] = options["ssl_check_hostname"].lower() in _TRUE
    elif options.get("ssl_cert_reqs") in ("none", "optional"):
        options["ssl_check_hostname"] = False
    return options


def _place(scheme: str, place: str, db: str) -> dict[str, Any]:
    if scheme in ("unix", "redis+socket"):
        path = unquote(place)
        if not path.startswith("/"):
            raise ValueError("an absolute path of a socket, as in unix:///run/valkey.sock")
        return {"path": path, "db": _number(db)}
    names, _, tail = place.partition("/")
    standard = 26_379 if scheme == "sentinel" else 6_379
    hosts = tuple(_host(each, standard) for each in names.split(","))
    if scheme == "sentinel":
        master = unquote(tail)
        if not master or "/" in master:
            raise ValueError("the master's name after the hosts: sentinel://h1:26379,h2/mymaster")
        return {"hosts": hosts, "master": master, "db": _number(db)}
    if len(hosts) > 1:
        raise ValueError("one host; several need sentinel://h1:26379,h2:26379/mymaster")
    return {"hosts": hosts, "db": _number(db or tail)}


def _number(text: str) -> int:
    if text and not (text.isascii() and text.isdigit()):
        raise ValueError("a database number such as /0 after the host")
    return int(text or 0)


def _login(text: str) -> tuple[str | None, str | None]:
    user, _, password = text.partition(":")
    return unquote(user) or None, unquote(password) or None


def _host(text: str, standard: int) -> tuple[str, int]:
    def wrong() -> NoReturn:
        raise ValueError(f"host:port with a port from 1 to 65535, not {text!r}")

    host, _, port = text.partition(":")
    if text.startswith("["):
        host, bracket, port = text[1:].partition("]")
        if not bracket or (port and not port.startswith(":")):
            wrong()
        port = port[1:]
    if port and not (port.isascii() and port.isdigit()):
        wrong()
    number = int(port) if port else standard
    if not 0 < number < 65_536:
        wrong()
    return host or "localhost", number
