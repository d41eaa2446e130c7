"""The blocks of ``docs/howto/stop-tasks.md`` are one file that runs and leaves nothing to do."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tq_celery.store.keys import Keys

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "stop-tasks.md"


def test_the_page_on_stopping_is_a_file_that_runs(make_server, tmp_path: Path) -> None:
    server = make_server("valkey")
    blocks = re.findall(
        r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    file = tmp_path / "stopping.py"
    file.write_text("\n\n".join(blocks).replace("localhost:6379", f"127.0.0.1:{server.port}"))

    done = subprocess.run(
        [sys.executable, str(file)], check=True, timeout=60, cwd=tmp_path, capture_output=True,
        text=True,
    )  # fmt: skip

    assert len(blocks) >= 4
    assert done.stdout == "1\n"
    with server.client() as client:
        counters = client.hgetall(Keys("shop").name("counters"))
        left = {name: count for name, count in counters.items() if int(count)}
        assert left == {b"accepted:celery": b"5", b"revoked:celery": b"5"}
