"""The application of the workers that pytest-celery starts.

It fills in the three lines that assign None or make the application, by their text.
"""

from __future__ import annotations

from celery import Celery

from tq_celery import TQ

imports = None

app = Celery("celery_test_app")
config = None

app.config_from_object(config or {})
# TQ_URL and TQ_NAMESPACE say where its scheduled tasks are.
tq = TQ(app)
