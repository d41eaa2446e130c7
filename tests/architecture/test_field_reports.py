"""Public reports of what broke elsewhere: each is answered by tests that name it.

One row a report, with what broke in a few words. Searching the tests for a name leads to its tests.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]

#: Where the report is, and what broke.
REPORTS = {
    "taskiq-python/taskiq-redis #101": "a long task gets a second live copy",
    "redis/redis-py #2807": "an idle blocking read is taken for a lost server",
    "taskiq-python/taskiq-redis #114": "acknowledged entries stay for ever, trimming loses work",
    "celery/celery #7633": "what was handed out beats later and more urgent work",
    "celery/celery #1113": "one message that cannot be read ends the worker",
    "ag2ai/faststream #2611": "NOGROUP for ever after the server came back empty",
    "sibson/redbeat #127": "two leaders dispatch after a pause",
    "mher/flower #473": "Flower fails, or shows wrong lengths",
    "celery/celery #9082": "a task that kills its worker is redelivered for ever",
    "redis/redis-py #3554": "a command is repeated that the server had run",
    "celery/celery #7517": "only the first task of a workflow keeps its options",
    "Bogdanp/dramatiq #258": "a batch of everything overflows the script",
    "redis/redis-py #2226": "recovery never gets past the head of the pending list",
    "celery/celery #9849": "workers hold what is not due",
    "celery/celery #5716": "out of memory ends the worker",
    "Openpanel-dev/groupmq #16": "every call fails once the scripts are forgotten",
    "celery/celery #10302": "connected again, and never polling again",
    "redis/redis #9745": "dead consumers pile up, or their tasks are lost with them",
    "celery/kombu #166": "one tenant's flood is served before anybody else",
    "celery/celery #4354": "fetched when SIGTERM came, and neither run nor put back",
    "sidekiq-scheduler/sidekiq-scheduler #283": "a clock that is off fires everything, or nothing",
    "celery/kombu #1494": "one client forgets the prefix",
    "celery/celery #4296": "delay() never returns",
    "django-commons/django-tasks-scheduler #387": "keys without an end pile up",
    "celery/celery #8417": "a stopping worker can be neither asked nor ended",
    "celery/celery #4008": "eager tests pass and production fails; fixtures hang",
    "danihodovic/celery-exporter #157": "labels of hosts and processes make series without end",
    "celery/celery #8976": "sent at the commit, in another context",
}


def _docstrings(path: Path) -> list[str]:
    """Return the docstrings of a file's tests, and of the file itself, on one line each."""
    tree = ast.parse(path.read_text("utf-8"))
    found = [ast.get_docstring(tree)]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            found.append(ast.get_docstring(node))
    return [" ".join(each.split()) for each in found if each]


NAMED = {
    path.relative_to(TESTS).as_posix(): _docstrings(path)
    for path in sorted(TESTS.rglob("test_*.py"))
    if path != Path(__file__)
}


@pytest.mark.parametrize("report", REPORTS)
def test_every_report_is_named_by_a_test(report: str) -> None:
    """Seen to fail for a report that was named without its owner, and for a number that is not."""
    name = re.compile(rf"(?<![\w/-]){re.escape(report)}(?!\d)")
    answered = [path for path, texts in NAMED.items() if any(map(name.search, texts))]
    assert answered, f"{report} ({REPORTS[report]}) is named by no test"
