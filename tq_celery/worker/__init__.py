"""The worker side: the only part that speaks to Celery's worker."""
