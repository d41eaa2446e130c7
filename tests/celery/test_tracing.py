"""One trace for each task: across processes, retries and nested sends, with any pool."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from itertools import pairwise
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.celery import CeleryInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from tests.celery.collector import Collector, Seen, collecting
from tests.celery.traced_tasks import add_parent
from tests.celery.worker_lab import ROOT
from tests.waiting import BUSY, wait_until

STEPS = ["submit", "admit", "dispatch", "run", "settle"]


@pytest.fixture
def collector():
    with collecting() as found:
        yield found


@pytest.fixture
def traced(worker_lab, collector: Collector, monkeypatch: pytest.MonkeyPatch):
    """Make a lab whose workers and sends are traced."""

    def make(**options: Any) -> Any:
        for name, value in collector.environ.items():
            monkeypatch.setenv(name, value)
        lab = worker_lab(tracing="on", **options)
        made.append(lab)
        return lab

    made: list[Any] = []
    yield make
    for lab in made:
        lab.app.tq.tracing.close()


def flush(lab: Any) -> None:
    lab.app.tq.tracing._export.force_flush(30_000)


def complete(collector: Collector, trace: str, *names: str) -> dict[str, Seen]:
    """Wait for spans of a trace, which come from several processes in any order; return all."""
    wait_until(
        lambda: collector.of(trace).keys() >= set(names),
        f"spans {names}",
        last=lambda: sorted(collector.of(trace)),
    )
    return collector.of(trace)


@pytest.mark.parametrize(
    "pool",
    ["threads", *(pytest.param(p, marks=pytest.mark.slow) for p in ("prefork", "solo", "gevent"))],
)
def test_the_five_steps_of_a_task_are_one_trace(traced, collector: Collector, pool):
    """Seen to fail without reading the run record: the spans of admit and dispatch were missing."""
    lab = traced()
    worker = lab.worker(pool)
    before = time.time() * 1000
    result = lab.send("nap", 0.05, tenant="acme", queue="celery")
    assert result.get(timeout=30) == ""
    flush(lab)
    wait_until(lambda: collector.named("settle nap"), "the settlement is traced")
    trace = collector.named("submit nap")[0].trace
    spans = complete(collector, trace, *(f"{step} nap" for step in STEPS))
    assert sorted(spans) == sorted(f"{step} nap" for step in STEPS)
    submit = spans["submit nap"]
    assert {span.parent for span in spans.values()} == {"", submit.id}
    for span in spans.values():
        assert span.attributes["messaging.message.id"] == result.id
        assert span.attributes["tq.tenant"] == "acme"
        assert span.service == "lab"
    ordered = [spans[f"{step} nap"] for step in STEPS[1:]]
    assert before - 5 <= ordered[0].start
    for earlier, later in pairwise(ordered):
        assert earlier.start <= earlier.end
        assert later.start >= earlier.end - 3  # two clocks, ms
    assert 50 <= spans["run nap"].end - spans["run nap"].start < 1000 * BUSY
    assert spans["settle nap"].attributes["tq.outcome"] == "completed"
    assert spans["run nap"].attributes["tq.worker"]
    assert worker.alive


@pytest.mark.slow
def test_a_retry_and_what_a_task_sends_belong_to_its_trace(traced, collector: Collector):
    lab = traced()
    lab.worker("prefork")
    assert lab.send("again", 2).get(timeout=30) == "done"
    assert lab.send("fail").get(timeout=30, propagate=False)
    flush(lab)
    wait_until(lambda: len(collector.named("settle again")) == 3, "three tries are traced")
    wait_until(lambda: collector.named("submit again"), "the first is traced")
    first = min(collector.named("submit again"), key=lambda span: span.start)
    assert {span.trace for span in collector.spans if span.name.endswith("again")} == {first.trace}
    outcomes = [span.attributes["tq.outcome"] for span in collector.named("settle again")]
    assert sorted(outcomes) == ["completed", "retried", "retried"]
    wait_until(lambda: collector.named("run fail"), "the failure is traced")
    wait_until(lambda: len(collector.named("run again")) == 3, "and what ran")
    assert collector.named("run fail")[0].failed
    assert not collector.named("run again")[0].failed


@pytest.mark.slow
def test_a_trace_that_is_not_sampled_travels_and_writes_nothing(traced, collector: Collector):
    lab = traced()
    lab.worker("threads")
    parent = f"00-{'ab' * 16}-{'cd' * 8}-00"
    assert lab.send("add", 1, 1, headers={"traceparent": parent}).get(timeout=30) == 2
    known = f"00-{'ef' * 16}-{'cd' * 8}-01"
    assert lab.send("add", 1, 2, headers={"traceparent": known}).get(timeout=30) == 3
    flush(lab)
    wait_until(lambda: collector.named("settle add"), "the sampled one is traced")
    assert {span.trace for span in collector.spans} == {"ef" * 16}
    assert collector.named("submit add")[0].parent == "cd" * 8


@pytest.mark.slow
def test_nothing_is_imported_while_it_is_off():
    """Seen to fail with an import of the spans at the top of the worker's step."""
    code = (
        "import sys, tq_celery.app, tq_celery.worker.bootstep, tq_celery.scheduler.service;"
        "from celery import Celery; tq = tq_celery.app.TQ(Celery('a'));"
        "assert tq.tracing is None and 'tracing' in vars(tq);"
        "print({'tq_celery.tracing.spans', 'tq_celery.worker.spans'}.intersection(sys.modules),"
        " [name for name in sys.modules if name.startswith('opentelemetry.sdk.trace')])"
    )
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    assert done.stdout == "set() []\n"


@pytest.mark.slow
def test_it_works_together_with_celerys_instrumentation(traced, collector: Collector, monkeypatch):
    """Seen to fail with a span of ours that is not current while Celery publishes."""
    monkeypatch.setenv("LAB_INSTRUMENT", "1")
    lab = traced()
    lab.main = "tests.celery.worker_instrumented"
    add_parent(lab.app)
    provider = TracerProvider(shutdown_on_exit=False)
    endpoint = collector.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] + "/v1/traces"
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint)))
    instrumentor: Any = CeleryInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    try:
        lab.worker("prefork")
        lab.app.send_task("parent", tenant="acme")
        wait_until(lambda: collector.named("settle noop"), "the task's own task is traced")
        flush(lab)
    finally:
        instrumentor.uninstrument()
    submit = collector.named("submit parent")[0]
    spans = complete(
        collector, submit.trace, *(f"{step} parent" for step in STEPS), "apply_async/parent",
        "run/parent", "inner", "submit noop", "apply_async/noop", "run noop",
    )  # fmt: skip
    theirs = spans["apply_async/parent"]
    assert theirs.parent == submit.id
    for step in ("admit", "dispatch", "run", "settle"):
        assert spans[f"{step} parent"].parent == theirs.id
    running = spans["run/parent"]
    assert running.parent == theirs.id
    assert spans["inner"].parent == running.id
    assert spans["submit noop"].parent == spans["inner"].id
    assert spans["run noop"].parent == spans["apply_async/noop"].id


@pytest.mark.slow
def test_what_a_task_traces_belongs_to_its_trace(traced, collector: Collector):
    lab = traced()
    lab.main = "tests.celery.worker_instrumented"
    add_parent(lab.app)
    lab.worker("prefork", concurrency=1)
    for _ in range(2):
        lab.app.send_task("parent", tenant="acme")
    wait_until(lambda: len(collector.named("settle noop")) == 2, "both are traced")
    flush(lab)
    submits = {span.trace: span for span in collector.named("submit parent")}
    assert len(submits) == 2
    for trace, submit in submits.items():
        spans = complete(collector, trace, "inner", "submit noop", "run noop")
        assert spans["inner"].parent == submit.id
        assert spans["submit noop"].parent == spans["inner"].id
        assert spans["run noop"].parent == spans["submit noop"].id


# --- a collector that is away ------------------------------------------------------------------


@pytest.fixture
def silent():
    """A port that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


SENDER = """
import os, sys, time
from tests.celery.worker_tasks import build
app = build(os.environ)
for number in range(20):
    app.tasks["noop"].apply_async()
time.sleep(0.4)
for number in range(20):
    app.tasks["noop"].apply_async()
print(time.time(), flush=True)
"""


def ending(lab: Any, **environ: str) -> float:
    """Return the seconds in which a process ends that has sent tasks."""
    environ = {**os.environ, **lab.environ, "PYTHONPATH": str(ROOT), **environ}
    done = subprocess.run(
        [sys.executable, "-c", SENDER], env=environ, stdout=subprocess.PIPE, text=True, check=True
    )
    return time.time() - float(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("away", ["silent", "refused"])
def test_a_collector_that_is_away_keeps_no_sender(worker_lab, silent, away):
    """Nor does it keep one busy. Seen to fail with OpenTelemetry's own batch processor: 10 s."""
    lab = worker_lab(scheduler=False)
    port = silent if away == "silent" else 1
    endpoint = f"http://127.0.0.1:{port}"
    off = ending(lab, TQ_TRACING="off")
    on = min(ending(lab, TQ_TRACING="on", OTEL_EXPORTER_OTLP_ENDPOINT=endpoint) for _ in range(2))
    assert on - off <= 0.2 + BUSY


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["prefork", "gevent"])
def test_a_collector_that_is_away_keeps_no_worker(worker_lab, silent, monkeypatch, pool):
    lab = worker_lab()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent}")
    took: dict[str, list[float]] = {"off": [], "on": []}
    for tracing in ("on", "off", "on"):
        monkeypatch.setenv("TQ_TRACING", tracing)
        lab.environ["TQ_TRACING"] = tracing
        vars(lab.app.tq).pop("tracing", None)
        vars(lab.app.tq).pop("settings", None)
        worker = lab.worker(pool)
        parent = {"traceparent": f"00-{'ef' * 16}-{'cd' * 8}-01"}
        for result in [lab.send("add", 1, n, headers=parent) for n in range(20)]:
            result.get(timeout=30)
        took[tracing].append(worker.terminate())
    assert min(took["on"]) - min(took["off"]) <= 0.2 + BUSY, took
