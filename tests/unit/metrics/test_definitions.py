"""The table of metrics: names and labels keep to the rules, and everything in it is exposed."""

from __future__ import annotations

import re

import pytest

from tests.unit.scheduler.exposing import exposing
from tests.unit.scheduler.support import Bench
from tq_celery.metrics.definitions import DEFINITIONS, METRICS, Definition
from tq_celery.metrics.samples import Samples
from tq_celery.states import Outcome, State
from tq_celery.store.contract import Token
from tq_celery.store.gauges import Gauges, QueueGauges, TenantGauges
from tq_celery.worker.deliveries import Ended
from tq_celery.worker.exposition import Exposition
from tq_celery.worker.timings import Timings

#: What a label may be: bounded sets all of them. A name that comes new is looked at here once.
LABELS = {
    "queue", "tenant", "outcome", "stream", "policy", "order_within", "loop", "script", "error",
    "version", "role", "step",
}  # fmt: skip
UNITS = ("_seconds", "_total", "_info")


def test_every_name_is_there_once() -> None:
    assert len(DEFINITIONS) == len(METRICS)


@pytest.mark.parametrize("each", METRICS, ids=lambda each: each.name)
def test_names_and_labels_keep_to_the_rules(each: Definition) -> None:
    """Seen to fail with a label ``worker``, and with a counter that has no ``_total``."""
    assert re.fullmatch(r"tq_[a-z]+(_[a-z]+)*", each.name)
    assert each.name.endswith("_total") == (each.kind == "counter")
    assert each.kind != "histogram" or each.name.endswith("_seconds")
    assert not re.search(r"milli|_ms|minute|kilo|percent", each.name)
    assert set(each.labels) <= LABELS
    assert each.meaning.endswith(".")


def test_every_state_has_its_gauge() -> None:
    assert {f"tq_{state}_tasks" for state in State} <= set(DEFINITIONS)


class Reader:
    """What a worker's exposition looks at."""

    heard, answered, finished, slots = 0.0, True, False, 4
    table: tuple[()] = ()


def test_everything_in_the_table_is_exposed_by_whom_it_says() -> None:
    """Seen to fail with one gauge left out of the leader's, and with one row too many."""
    bench = Bench()
    bench.run(2)
    gauges = Gauges(queues={"q": QueueGauges()}, tenant={b"acme": TenantGauges(1)})
    leader = Samples()
    exposing(bench.scheduler, gauges).fill(leader)
    standby = Samples()
    exposing(bench.another(), gauges).fill(standby)
    timings = Timings()
    timings.ended.append(Ended(Token("q", b"1-0", 1), Outcome.COMPLETED, b"", 1.0, 2.0, 5))
    timings.count(100.0, lambda seconds: seconds * 1000)
    worker = Samples()
    Exposition(Reader(), timings).fill(worker)  # type: ignore[arg-type]

    def of(*exposers: str) -> set[str]:
        return {each.name for each in METRICS if each.exposer in exposers}

    scripts = {"tq_script_seconds", "tq_script_errors_total"}  # those that were called
    assert leader.names() | scripts == of("leader", "scheduler", "both")
    assert standby.names() | scripts == of("scheduler", "both")
    assert worker.names() | scripts == of("worker", "both")
