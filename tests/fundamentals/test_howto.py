"""The blocks of ``docs/howto/choose-options.md`` are one file that runs and sends what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.waiting import wait_until
from tq_celery.store.inspect import Inspector
from tq_celery.store.keys import Keys

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "choose-options.md"


def test_the_page_on_options_is_a_file_that_runs(make_server, tmp_path: Path) -> None:
    server = make_server("valkey")
    blocks = re.findall(
        r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    file = tmp_path / "options.py"
    file.write_text("\n\n".join(blocks).replace("localhost:6379", f"127.0.0.1:{server.port}"))

    subprocess.run([sys.executable, str(file)], check=True, timeout=60, cwd=tmp_path)

    assert len(blocks) >= 6
    with server.client() as client:
        inspector = Inspector(client, Keys("shop"))
        (queue,) = wait_until(inspector.queues, "the tasks are there")
        assert queue.submitted == 5
        live = client.hgetall(Keys("shop").name("live"))
        assert live == {b"acme": b"4", b"batch": b"1"}
