"""The demo: one tenant floods, two others carry on, first on stock Celery, then through wfq."""
