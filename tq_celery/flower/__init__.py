"""Flower with one more page, *Scheduler*, and with its JSON API; needs the ``flower`` extra.

A request goes from a handler (``pages.py``, ``api.py``) to the :class:`~tq_celery.flower.desk.Desk`
in a thread, so that a server that does not answer holds up no other page. ``snapshot.py`` says what
is shown. ``serve.py`` starts Flower with all of it.
"""
