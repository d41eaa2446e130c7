"""Fair scheduling for Celery: decorated tasks pass through a fenced central scheduler."""
