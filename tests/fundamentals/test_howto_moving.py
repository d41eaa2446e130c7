"""The blocks of ``docs/howto/move-an-application.md`` are one file that runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tq_celery.store.keys import Keys

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "move-an-application.md"


def test_the_page_on_moving_is_a_file_that_runs(make_server, tmp_path: Path) -> None:
    server = make_server("valkey")
    blocks = re.findall(
        r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    file = tmp_path / "moving.py"
    file.write_text("\n\n".join(blocks).replace("localhost:6379", f"127.0.0.1:{server.port}"))

    done = subprocess.run(
        [sys.executable, str(file)], check=True, timeout=60, cwd=tmp_path,
        capture_output=True, text=True,
    )  # fmt: skip

    assert len(blocks) == 4
    assert "of this process's calls went to the broker" in done.stdout
    went = int(done.stdout.split()[0])
    with server.client() as client:
        assert client.hlen(Keys("shop").name("payload")) == 2 - went
        client.select(1)
        assert client.llen("celery") == went
