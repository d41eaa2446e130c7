"""Every private name of Celery, kombu and billiard that we rely on: where, and why.

Another release may take any of them away without a word. Then this module fails and names it,
instead of a worker some time later.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from celery.utils.imports import symbol_by_name

ROOT = Path(__file__).resolve().parents[2] / "tq_celery"


class Private(NamedTuple):
    """``name`` of ``owner``, a class or a module."""

    name: str
    owner: str
    where: str
    why: str


_REQUEST = "celery.worker.request:Request"
_REDIS = "celery.backends.redis:RedisBackend"
_JOB = "billiard.pool:ApplyResult"
_APP = "celery:Celery"

PRIVATE = [
    # -- the request of a worker
    Private("_type", _REQUEST, "worker/request.py", "first argument of the trace"),
    Private(
        "_request_dict", _REQUEST,
        "worker/request.py, worker/request_info.py, worker/spans.py",
        "the request as the trace takes it",
    ),
    Private("_body", _REQUEST, "worker/request.py", "what a pool process decodes"),
    Private("_content_type", _REQUEST, "worker/request.py", "how it is decoded"),
    Private("_content_encoding", _REQUEST, "worker/request.py", "how it is decoded"),
    Private("_payload", _REQUEST, "worker/request.py", "decoded already, for pools in the process"),
    Private("_task", _REQUEST, "worker/request.py", "task or view, without a property's cost"),
    Private("_context", _REQUEST, "worker/request.py", "group, chord and chain for the backend"),
    Private("_expires", _REQUEST, "worker/request.py", "is a look at the expiry worth its time?"),
    Private("_already_revoked", _REQUEST, "worker/request.py", "the same for a revocation"),
    Private("_apply_result", _REQUEST, "worker/request.py", "set, so that Celery can terminate"),
    Private("_announce_revoked", _REQUEST, "worker/request.py", "where a revocation is decided"),
    Private(
        "_success_was_stored", _REQUEST, "worker/request.py", "lost after its success"
    ),
    Private("_retry_worker_lost", _REQUEST, "worker/request.py", "lost, and tried anew"),
    # -- result backends
    Private(
        "_chord_part_return_script", _REDIS, "worker/chords.py", "tells a backend with claims"
    ),
    Private("_create_client", _REDIS, "result_backend.py", "whose subscriptions are looked after"),
    # -- the application
    Private("_tasks", _APP, "publish.py", "a look at the tasks that does not finalize"),
    Private("_task_from_fun", _APP, "app.py", "where shared tasks are made"),
    Private("_get_app", "celery:Task", "commit.py", "the application of a task or class"),
    Private("_get_backend", _APP, "result_backend.py", "where every backend is made"),
    Private("_backend", _APP, "result_backend.py, testing/swap.py", "the backend, if there is one"),
    Private("_backend_cache", _APP, "testing/swap.py, testing/recorder.py", "put back later"),
    Private("_local", _APP, "testing/swap.py", "the backend of this thread"),
    Private("_pool", _APP, "testing/swap.py", "connections, put back after a test"),
    Private("_producer_pool", "celery.app.amqp:AMQP", "testing/swap.py", "closed after a test"),
    Private("_event_dispatcher", "celery.app.amqp:AMQP", "submit.py", "sends task-sent events"),
    Private(
        "_dump_pydantic_arguments", "celery:Task", "templates.py, commit.py", "takes models"
    ),
    Private("_get_current_object", "celery.local:Proxy", "templates.py", "the task in a promise"),
    Private("_tls", "celery._state", "testing/swap.py", "current application, put back"),
    Private(
        "_state", "celery", "effective.py, worker/lines.py, testing/swap.py",
        "the task that runs here",
    ),
    Private("_encoders", "kombu.serialization:registry", "envelope.py", "is json kombu's own?"),
    # -- pools and remote control
    Private("_pool", "celery.concurrency.base:BasePool", "worker/bootstep.py", "the AsynPool"),
    Private(
        "_pool", "billiard.pool:Pool", "worker/lost_process.py, worker/reconnecting.py",
        "the processes",
    ),
    Private(
        "_sentinel_poll", "celery.concurrency.asynpool", "worker/lost_process.py",
        "has its pipe closed before it was gone?",
    ),
    Private("_result_handler", "billiard.pool:Pool", "worker/reconnecting.py", "takes in results"),
    Private("_accepted", _JOB, "worker/request.py, worker/lost_process.py", "was it taken?"),
    Private("_write_to", _JOB, "worker/request.py, worker/lost_process.py", "whose pipe it is in"),
    Private(
        "_writer", "celery.concurrency.asynpool", "worker/request.py", "is it partly written?"
    ),
    Private(
        "_is_alive", "billiard.process:BaseProcess",
        "worker/lost_process.py, worker/reconnecting.py", "is it gone?",
    ),
    Private(
        "_reader", "billiard.queues:_SimpleQueue",
        "worker/lost_process.py, worker/reconnecting.py", "its results",
    ),
    Private("_do_reset", "celery.worker.pidbox:gPidbox", "worker/late_control.py", "listens anew"),
    Private(
        "_close_channel", "celery.worker.pidbox:gPidbox", "worker/late_control.py", "and ends that"
    ),
    # -- kombu
    Private("_decode", "kombu.message:Message", "worker/message.py", "plain JSON, faster"),
    Private(
        "_decoders", "kombu.serialization:registry", "worker/message.py", "is JSON still kombu's?"
    ),
    Private(
        "_reraise_as_library_errors", "kombu:Connection", "submit.py, testing/doubles.py",
        "a stand-in for a connection has it",
    ),
]  # fmt: skip

#: Private names of others than these three, and of our own across modules.
OTHERS = {
    "_replace",
    "_sock",
    "_original",
    "_ordinary",
    "_add",
    "_binary",
}


def _source(owner: object) -> str:
    if inspect.ismodule(owner):
        return inspect.getsource(owner)
    kinds = inspect.getmro(owner) if isinstance(owner, type) else (type(owner),)
    return "".join(inspect.getsource(kind) for kind in kinds if kind.__module__ != "builtins")


@pytest.mark.parametrize("private", PRIVATE, ids=lambda p: f"{p.owner}.{p.name}")
def test_it_is_still_there(private: Private) -> None:
    """Seen to fail with a name misspelt."""
    owner = symbol_by_name(private.owner) if ":" in private.owner else None
    if owner is None:
        owner = importlib.import_module(private.owner)
    # most are attributes of instances, which only the source knows
    assert hasattr(owner, private.name) or re.search(
        rf"\b(self|job|proc)\.{private.name} = ", _source(owner)
    ), f"{private.owner} has no {private.name} any more: {private.where} needs it: {private.why}"


def _used() -> dict[str, set[str]]:
    """Return the private names that our code asks of other objects, with the files that do."""
    found: dict[str, set[str]] = {}
    for path in ROOT.rglob("*.py"):
        if path.relative_to(ROOT).parts[0] in ("store", "scheduler", "policies", "traces"):
            continue  # no import of Celery there
        file, text = path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
        ours = set(re.findall(r"\b(?:def |class |self\.)(_\w+)", text))
        for node in ast.walk(ast.parse(text)):
            name = None
            if isinstance(node, ast.Attribute):
                own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
                name = None if own else node.attr
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                ("celery", "kombu", "billiard")
            ):
                parts = [*(node.module or "").split("."), *(each.name for each in node.names)]
                name = next((each for each in parts if each.startswith("_")), None)
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("getattr", "hasattr")
                and isinstance(node.args[1], ast.Constant)
            ):
                name = str(node.args[1].value)
            if name and name.startswith("_") and not name.startswith("__") and name not in ours:
                found.setdefault(name, set()).add(file)
    return found


def test_the_list_is_complete() -> None:
    """A new dependence on a private name has to be written down; seen to fail without a line."""
    listed: dict[str, set[str]] = {}
    for private in PRIVATE:
        listed.setdefault(private.name, set()).update(private.where.split(", "))
    used = {name: files for name, files in _used().items() if name not in OTHERS}
    missing = {name: files - listed.get(name, set()) for name, files in used.items()}
    assert not {name: files for name, files in missing.items() if files}
    # methods that are overridden are no attributes of others
    for private in PRIVATE:
        texts = [(ROOT / file).read_text("utf-8") for file in private.where.split(", ")]
        assert any(private.name in text for text in texts), private
