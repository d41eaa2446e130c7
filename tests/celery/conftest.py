"""Fixtures of the tests that run real Celery workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.celery.worker_lab import WorkerLab


@pytest.fixture
def worker_lab(
    make_server: Callable[..., Any], tmp_path: Path
) -> Iterator[Callable[..., WorkerLab]]:
    """Start labs: ``worker_lab(lease=2.0, conf={...}, server=make_server(...))``."""
    labs: list[WorkerLab] = []

    def make(server: Any = None, **options: Any) -> WorkerLab:
        folder = tmp_path / f"lab{len(labs)}"
        folder.mkdir()
        lab = WorkerLab(server or make_server("valkey"), folder, **options)
        labs.append(lab)
        return lab

    yield make
    for lab in labs:
        lab.close()
