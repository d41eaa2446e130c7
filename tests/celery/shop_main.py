"""What ``celery -A tests.celery.shop_main worker`` runs."""

import os

from tests.celery.shop import build

app = build(os.environ)
