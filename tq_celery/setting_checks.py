"""What a setting may be: each check returns a value's normal form, or says what is allowed.

A check is called with the setting's name and the value given, from code or as text, and raises
SettingsError on anything else.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from tq_celery.errors import SettingsError

__all__ = [
    "ROUTE_OPTIONS",
    "TLS_OPTIONS",
    "URL_FORMS",
    "Check",
    "did_you_mean",
    "number",
    "parse_duration",
    "port",
    "routes",
    "safe_url",
    "seconds",
    "ssl",
    "text",
    "url",
    "whole",
    "word",
]

#: The forms of server URLs, as shown in messages.
URL_FORMS: Final = (
    "redis://host:port/db, rediss://host:port/db, redis+socket:///path, unix:///path "
    "or sentinel://host:port,host:port/master"
)
_SCHEMES = ("redis", "rediss", "redis+socket", "unix", "sentinel")

#: Options of TLS, in the query of a URL or in the setting ``ssl``.
TLS_OPTIONS: Final = (
    "ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname",
)  # fmt: skip

#: Options a route may set for the tasks whose names match its pattern.
ROUTE_OPTIONS: Final = ("tenant", "cost", "priority", "deadline", "fraction", "on_unavailable")

_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}


def parse_duration(text: str) -> float:
    """Return the seconds of ``30``, ``30s``, ``500ms``, ``5m``, ``1h`` or ``2d``.

    Raises ValueError on anything else.
    """
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([a-z]*)\s*", text)
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"{text!r} is no duration; write 30s, 500ms, 5m, 1h or 2d")
    return float(match[1]) * _UNITS[match[2]]


def safe_url(url: str) -> str:
    """Return the URL without user, password and secret query values, fit for logs and messages."""
    scheme, mark, rest = url.partition("://")
    if not mark:
        return "***" if "@" in url else url
    # A password may hold unescaped separators; everything before the last @ is kept out.
    _, at, place = rest.rpartition("@")
    place = re.sub(r"(?i)([?&][^=&]*(?:pass|secret|token|user)[^=&]*=)[^&]*", r"\1***", place)
    return f"{scheme}://{'***@' if at else ''}{place}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` for the closest known name, or an empty text."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


#: Takes a setting's name and a value; returns the normal form or raises SettingsError.
Check = Callable[[str, object], object]


def seconds(low: float, high: float, *, none: str = "") -> Check:
    """Return a check of a duration: seconds as a float, or text with a unit.

    Where ``none`` says what it means, None is allowed, as text ``none``.
    """
    allowed = f"a number of seconds from {low:g} to {high:g}"
    if none:
        allowed += f", or None for {none}"

    def check(name: str, value: object) -> object:
        if none and (value is None or value in ("none", "None")):
            return None
        if isinstance(value, str):
            try:
                value = parse_duration(value)
            except ValueError:
                raise SettingsError(name, value, allowed) from None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise SettingsError(name, value, allowed)
        if not (math.isfinite(value) and low <= value <= high):
            raise SettingsError(name, value, allowed)
        return float(value)

    return check


def number(low: float, high: float) -> Check:
    """Return a check of any number in a range."""
    allowed = f"a number from {low:g} to {high:g}"

    def check(name: str, value: object) -> object:
        if isinstance(value, str) and re.fullmatch(r"\s*[0-9]*\.?[0-9]+\s*", value):
            value = float(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise SettingsError(name, value, allowed)
        if not low <= value <= high:
            raise SettingsError(name, value, allowed)
        return float(value)

    return check


def whole(low: int, high: int | None = None, *, optional: bool = False) -> Check:
    """Return a check of a whole number; ``optional`` allows None, as text ``none``."""
    allowed = f"a whole number from {low} to {high}" if high else f"a whole number from {low} up"
    if optional:
        allowed += ", or None for no bound"

    def check(name: str, value: object) -> object:
        if optional and (value is None or value in ("none", "None")):
            return None
        if isinstance(value, str) and re.fullmatch(r"[0-9][0-9_]*", value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise SettingsError(name, value, allowed)
        if value < low or (high is not None and value > high):
            raise SettingsError(name, value, allowed)
        return value

    return check


def port(name: str, value: object) -> object:
    """Check a port to listen on: a number, ``auto`` or ``off``."""
    allowed = "a port from 1 to 65535, 'auto' or 'off'"
    if isinstance(value, str):
        if value in ("auto", "off"):
            return value
        if re.fullmatch(r"[0-9]{1,5}", value):
            value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 65_535:
        raise SettingsError(name, value, allowed)
    return value


def word(choices: tuple[str, ...]) -> Check:
    """Return a check that takes one of the words."""

    def check(name: str, value: object) -> object:
        if value in choices:
            return value
        hint = did_you_mean(value, choices) if isinstance(value, str) else ""
        raise SettingsError(name, value, "one of " + ", ".join(choices) + hint)

    return check


def text(pattern: str, longest: int, allowed: str) -> Check:
    """Return a check of text that matches, of at most ``longest`` bytes in UTF-8."""

    def check(name: str, value: object) -> object:
        if (
            isinstance(value, str)
            and re.fullmatch(pattern, value, re.DOTALL)
            and len(value.encode("utf-8", "surrogatepass")) <= longest
        ):
            return value
        raise SettingsError(name, value, allowed)

    return check


def url(name: str, value: object) -> object:
    """Check the form of a server URL; what is refused is shown without its secrets."""
    if isinstance(value, str):
        scheme, mark, place = value.partition("://")
        if mark and place and scheme in _SCHEMES:
            return value
        hint = did_you_mean(scheme, _SCHEMES) if mark else ""
        raise SettingsError(name, safe_url(value), URL_FORMS + hint)
    raise SettingsError(name, type(value).__name__, URL_FORMS)


def _mapping(name: str, value: object, allowed: str) -> Mapping[Any, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise SettingsError(name, value, allowed + " (as JSON)") from None
    if not isinstance(value, Mapping):
        raise SettingsError(name, value, allowed)
    return value


def routes(name: str, value: object) -> object:
    """Check a mapping of patterns to options of calls, or its JSON; returns a copy."""
    allowed = "a mapping of task name patterns to options " + ", ".join(ROUTE_OPTIONS)
    found = _mapping(name, value, allowed)
    for pattern, options in found.items():
        if not isinstance(pattern, str) or not pattern or not isinstance(options, Mapping):
            raise SettingsError(f"{name}[{pattern!r}]", options, allowed)
        for option in options:
            if option not in ROUTE_OPTIONS:
                hint = did_you_mean(str(option), ROUTE_OPTIONS)
                raise SettingsError(f"{name}[{pattern!r}]", option, allowed + hint)
    return {pattern: dict(options) for pattern, options in found.items()}


def ssl(name: str, value: object) -> object:
    """Check a mapping of TLS options, or its JSON; returns all values as text."""
    allowed = "a mapping of " + ", ".join(TLS_OPTIONS)
    options = {}
    for option, each in _mapping(name, value, allowed).items():
        if option not in TLS_OPTIONS:
            hint = did_you_mean(str(option), TLS_OPTIONS)
            raise SettingsError(name, option, allowed + hint)
        # Celery's own settings hold constants of the module ssl.
        each = getattr(each, "name", each)
        options[option] = str(each).lower() if isinstance(each, bool) else str(each)
    return options
