"""Log lines: what they look like as text and as JSON, and that no value can break one."""

from __future__ import annotations

import json
import logging
from io import StringIO
from typing import Any

import pytest

from tq_celery.logs import JsonLines, Log, formatter


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.fixture
def written(request: pytest.FixtureRequest):
    """Return what ``Log`` writes with the format of that name."""
    logger = logging.getLogger("tq_celery.test_logs")
    logger.propagate, logger.level = False, logging.INFO
    handlers = []

    def lines(word: str) -> tuple[Log, StringIO]:
        handler = logging.StreamHandler(StringIO())
        handler.setFormatter(formatter(word))
        handlers.append(handler)
        logger.handlers = [handler]
        return Log(logger.name), handler.stream

    yield lines
    logger.handlers = []


def test_text_has_the_message_first_and_one_word_a_field(written) -> None:
    log, stream = written("text")
    log.warning("worker lost", worker="w 1", deliveries=3, counted=True, reason=None, rest=0.05)
    (line,) = stream.getvalue().splitlines()
    assert line.endswith(
        'WARNING worker lost: worker="w 1" deliveries=3 counted=true reason=none rest=0.05'
    )


def test_json_has_a_constant_message_and_the_fields_beside_it(written) -> None:
    log, stream = written("json")
    log.warning("worker lost", worker="w 1", deliveries=3, counted=True, reason=None)
    line = json.loads(stream.getvalue())
    assert line.pop("at").endswith("Z")
    assert line == {
        "level": "warning", "logger": "tq_celery.test_logs", "message": "worker lost",
        "worker": "w 1", "deliveries": 3, "counted": True, "reason": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    "value, text, plain",
    [
        ("a\nERROR forged", '"a\\nERROR forged"', "a\nERROR forged"),
        ('say "x"', '"say \\"x\\""', 'say "x"'),
        ("a=b", '"a=b"', "a=b"),
        ("", '""', ""),
        ("größer", "größer", "größer"),
        (b"\xff\x00", '"\\\\xff\\u0000"', "\\xff\x00"),
        ("\udc80", '"\\udc80"', "\udc80"),
        (float("inf"), "inf", "inf"),
        (KeyError("k"), "\"KeyError: 'k'\"", "KeyError: 'k'"),
        (Unspeakable(), "Unspeakable", "Unspeakable"),
        ("x" * 5000, "x" * 1000, "x" * 1000),
    ],
)
def test_no_value_breaks_a_line(written, value: object, text: str, plain: str) -> None:
    """Seen to fail without quoting: a tenant's name forged a line of its own."""
    log, stream = written("text")
    log.info("told", value=value)
    assert stream.getvalue().split(" told: ")[1] == f"value={text}\n"
    log, stream = written("json")
    log.info("told", value=value)
    (line,) = stream.getvalue().splitlines()
    line.encode()
    assert json.loads(line)["value"] == plain


def test_a_field_never_takes_the_place_of_the_lines_own(written) -> None:
    log, stream = written("json")
    log.info("told", level="none", at=0, queue="q")
    line = json.loads(stream.getvalue())
    assert (line["level"], line["queue"]) == ("info", "q")
    assert line["at"] != 0


def test_a_traceback_is_one_field(written) -> None:
    log, stream = written("json")
    try:
        raise ValueError("bad")
    except ValueError:
        log.exception("failed", task_id="t1")
    line = json.loads(stream.getvalue())
    assert (line["level"], line["task_id"]) == ("error", "t1")
    assert line["traceback"].endswith("ValueError: bad")


def test_lines_of_others_keep_their_text_and_their_task() -> None:
    record: Any = logging.LogRecord("other", logging.INFO, "f.py", 1, "got %d", (3,), None)
    record.task_id, record.secret = "t1", "s"
    line = json.loads(JsonLines().format(record))
    assert (line["message"], line["task_id"]) == ("got 3", "t1")
    assert "secret" not in line


def test_a_record_has_the_task_where_celery_puts_it(caplog: pytest.LogCaptureFixture) -> None:
    """Seen to fail without ``stacklevel``: every line came from the module of the log."""
    Log("tq_celery.other").error("failed", task_id="t1", tenant=b"acme", queue="q")
    record: Any = caplog.records[0]
    assert (record.task_id, record.tenant, record.funcName) == (
        "t1", "acme", "test_a_record_has_the_task_where_celery_puts_it",
    )  # fmt: skip
    assert not hasattr(record, "queue")
    assert record.msg == "failed: task_id=%s tenant=%s queue=%s"


def test_what_is_not_written_costs_no_text(written) -> None:
    log, stream = written("text")
    log.debug("told", value=Unspeakable())
    assert stream.getvalue() == ""
