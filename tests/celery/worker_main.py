"""What ``celery -A tests.celery.worker_main worker`` runs."""

import os

from tests.celery.worker_tasks import build

app = build(os.environ)
