"""What ``celery -A tests.celery.seeing_main worker`` runs."""

import os

from tests.celery.seeing_tasks import build

app = build(os.environ)
