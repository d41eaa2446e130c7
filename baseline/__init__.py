"""The control group: the same tasks on stock Celery, one application per broker."""
