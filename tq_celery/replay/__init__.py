"""Replay a recorded workload through real Celery workers, and say how long everybody waited."""
