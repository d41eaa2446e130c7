"""Tracing: one trace for each task, from the call that submits it to its settlement.

==========  =============================  ======================================================
span        written by                     from, to
==========  =============================  ======================================================
submit      the process that sends         the call, as the context of what else is traced there
admit       the worker that settles        in ingress, or due; ranked and pending
dispatch    the worker that settles        pending; handed to a worker
run         the worker that settles        a slot took it; it ended
settle      the worker that settles        ended; its outcome is in the store
==========  =============================  ======================================================

The message carries W3C ``traceparent`` and ``tracestate`` in its headers, those of the submit span
or of a span inside it, such as that of opentelemetry-instrumentation-celery. The other four are its
children. Schedulers move ids and ranks in batches and never look into a message, so they write no
spans: the store keeps when it admitted and dispatched each task, and the worker that settles one
turns these times to spans, for sampled traces alone. A task that no worker settles (purged, buried,
revoked while it waited) has its submit span only. All times but those of submit are on the store's
clock.

Nothing here is imported while ``tq_tracing`` is off.
"""
