"""A scrape's values: only what the table has, in the form that scrapers read."""

from __future__ import annotations

import random

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tq_celery.metrics.buckets import Buckets
from tq_celery.metrics.samples import Samples


def test_a_name_or_a_label_that_the_table_lacks_is_refused() -> None:
    samples = Samples()
    with pytest.raises(KeyError):
        samples.add("tq_pending", 1, queue="q")
    with pytest.raises(ValueError, match=r"tq_pending_tasks: labels \('queue',\), not \('host',\)"):
        samples.add("tq_pending_tasks", 1, host="h")
    assert not samples.names()


def test_buckets_add_up() -> None:
    buckets = Buckets((0.1, 1.0))
    for seconds in (0.05, 0.1, 0.5, 7.0, -2.0):
        buckets.add(seconds)
    assert buckets.cumulative() == [("0.1", 3), ("1.0", 4), ("+Inf", 5)]
    assert buckets.total == pytest.approx(7.65)


@pytest.mark.parametrize("seconds", [[], [-1.0], [0.0], [1e9], [0.1] * 3], ids=str)
def test_many_at_once_are_counted_as_one_by_one(seconds: list[float]) -> None:
    rng = random.Random(1)
    for more in range(0, 200, 20):
        values = seconds + [rng.choice((0.1, 1.0, rng.gauss(0.5, 1.0))) for _ in range(more)]
        one_by_one, at_once = Buckets((0.1, 1.0)), Buckets((0.1, 1.0))
        for each in values:
            one_by_one.add(each)
        at_once.add_all(values)
        at_once.add_all([])
        assert at_once.cumulative() == one_by_one.cumulative()
        assert at_once.total == pytest.approx(one_by_one.total)


def test_what_is_written_is_read_back() -> None:
    samples = Samples()
    samples.add("tq_accepted_tasks_total", 7, queue='q"\n\\')
    samples.add("tq_starved", 1)
    buckets = Buckets((0.1, 1.0))
    buckets.add(0.5)
    samples.add_buckets("tq_execution_seconds", buckets, queue="q")
    assert len(samples) == 1 + 1 + 5
    body, content_type = samples.encode("")
    assert content_type.startswith("text/plain; version=0.0.4")
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }
    assert found == {
        ("tq_accepted_tasks_total", 'q"\n\\'): 7.0,
        ("tq_starved",): 1.0,
        ("tq_execution_seconds_bucket", "0.1", "q"): 0.0,
        ("tq_execution_seconds_bucket", "1.0", "q"): 1.0,
        ("tq_execution_seconds_bucket", "+Inf", "q"): 1.0,
        ("tq_execution_seconds_count", "q"): 1.0,
        ("tq_execution_seconds_sum", "q"): 0.5,
    }
    open_metrics, content_type = samples.encode("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert open_metrics.endswith(b"# EOF\n")
