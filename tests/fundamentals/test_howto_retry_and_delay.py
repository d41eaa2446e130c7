"""The blocks of ``docs/howto/retry-and-delay.md`` are one file that runs and delays its tasks."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

from tq_celery.backoff import Backoff
from tq_celery.store.keys import Keys
from tq_celery.store.stopping import RedisStopping

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "retry-and-delay.md"


def test_the_page_is_a_file_that_runs(make_server: Any, tmp_path: Path) -> None:
    server = make_server("valkey")
    blocks = re.findall(
        r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    file = tmp_path / "retries.py"
    file.write_text("\n\n".join(blocks).replace("localhost:6379", f"127.0.0.1:{server.port}"))

    page = runpy.run_path(str(file))

    assert len(blocks) == 5
    app, tq = page["app"], page["tq"]
    app.finalize()
    assert page["sync"].tq_backoff == Backoff(0.5, 120.0)
    assert page["fetch"].tq_backoff == Backoff(1.0, 600.0)
    assert page["charge"].tq_backoff is None
    stopping = RedisStopping.open_stopping(tq.settings)
    soon, expiring, tomorrow = stopping.delayed(["celery"], 5)
    assert {each.tenant for each in (soon, expiring, tomorrow)} == {b"acme"}
    with server.client() as client:
        seconds, _ = client.time()
        assert 80 <= soon.due / 1000 - seconds <= 91
        assert 7.9 <= (tomorrow.due / 1000 - seconds) / 3600 <= 8.001
        assert client.zcard(Keys("shop").name("delayed")) == 3
    stopping.client.close()
    tq.producers.close()
