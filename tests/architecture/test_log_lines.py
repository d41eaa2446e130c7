"""Every log line of the library: a constant message, fields of known names, never an argument."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "tq_celery"

LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
#: What a field may be called, all of them: a name that comes new is looked at here once.
FIELDS = {
    "exc_info", "task_id", "task_name", "tenant",
    "command", "counted", "deliveries", "end", "epoch", "error", "failures", "held_back", "loop",
    "missing", "namespace", "newest", "owner", "port", "queue", "reason", "released", "rest",
    "role", "tasks", "worker",
}  # fmt: skip
#: Functions whose result may be given as fields, and settings that a scheduler overrules.
SPREAD = {"task_fields", "tq_fields", "obituary_fields", "kept"}
#: One line of Celery's own, written for it with its own words.
CELERYS = ("worker/strategy.py", "LOG_RECEIVED")


def calls() -> Iterator[tuple[str, ast.Call, dict[str, str]]]:
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        tree = ast.parse(path.read_text("utf-8"))
        words = {
            target.id: node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name) and isinstance(node.value.value, str)
        }
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            of = ast.unparse(node.func.value)
            if node.func.attr in LEVELS and ("log" in of.lower().split(".")[0].split("(")[0]):
                yield name, node, words


def test_messages_are_constant_and_fields_are_known() -> None:
    """Seen to fail with an f-string as a message, and with ``args=request.argsrepr`` as a field."""
    wrong, seen = [], 0
    for name, call, words in calls():
        if name == "logs.py" or (name == CELERYS[0] and CELERYS[1] in ast.unparse(call)):
            continue
        seen += 1
        where = f"{name}:{call.lineno}"
        first = call.args[0] if call.args else None
        constant = isinstance(first, ast.Constant) or (
            isinstance(first, ast.Name) and first.id in words
        )
        if len(call.args) != 1 or not constant:
            wrong.append(f"{where}: the message is not a constant")
        for each in call.keywords:
            if each.arg is None:
                of = each.value.func if isinstance(each.value, ast.Call) else each.value
                if ast.unparse(of).rpartition(".")[2] not in SPREAD:
                    wrong.append(f"{where}: fields of {ast.unparse(of)}")
            elif each.arg not in FIELDS:
                wrong.append(f"{where}: field {each.arg}")
    assert not wrong
    assert seen >= 30, "the calls are no longer found"


def test_nothing_else_of_the_library_writes_lines() -> None:
    """Modules log through ``tq_celery.logs``; the two that set a log up need more of it."""
    using = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        if "logging.getLogger(" in path.read_text("utf-8")
    }
    assert using <= {"logs.py", "worker/lines.py", "worker/strategy.py", "cli/scheduler.py"}
