"""Metrics: what is measured under which name, who exposes it, and the endpoint it is read from.

:mod:`~tq_celery.metrics.definitions` is the one table of names. Whoever exposes something fills
:class:`~tq_celery.metrics.samples.Samples`, which refuses a name or a label that the table lacks.
"""
