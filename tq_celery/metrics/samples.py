"""What one scrape answers: values under the names of the table, and no others."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from tq_celery.metrics.buckets import Buckets
from tq_celery.metrics.definitions import DEFINITIONS, Definition

__all__ = ["Samples"]


class Samples:
    """Gathers values, then :meth:`encode` writes them as the scraper asks for.

    Raises KeyError for a name that the table lacks, and ValueError for other labels than it says.
    """

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}

    def __len__(self) -> int:
        """Return the number of series."""
        return sum(len(each.samples) for each in self._metrics.values())

    def add(self, name: str, value: float, **labels: str) -> None:
        """Set a counter's or a gauge's value."""
        definition = DEFINITIONS[name]
        self._metric(definition, labels).add_sample(name, labels, value)

    def add_buckets(self, name: str, buckets: Buckets, **labels: str) -> None:
        """Set a histogram."""
        metric = self._metric(DEFINITIONS[name], labels)
        counts = buckets.cumulative()
        for bound, count in counts:
            metric.add_sample(f"{name}_bucket", {**labels, "le": bound}, count)
        metric.add_sample(f"{name}_count", labels, counts[-1][1])
        metric.add_sample(f"{name}_sum", labels, buckets.total)

    def names(self) -> set[str]:
        """Return the names that have a value, as the table writes them."""
        return set(self._metrics)

    def encode(self, accept: str) -> tuple[bytes, str]:
        """Return the body, and its content type, in the best form of those in ``accept``."""
        encoder, content_type = choose_encoder(accept)
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Once(self._metrics.values()))
        body: bytes = encoder(registry)
        return body, content_type

    def _metric(self, definition: Definition, labels: dict[str, str]) -> Metric:
        if tuple(labels) != definition.labels:
            raise ValueError(f"{definition.name}: labels {definition.labels}, not {tuple(labels)}")
        found = self._metrics.get(definition.name)
        if found is None:
            name = definition.name
            if definition.kind == "counter":
                name = name.removesuffix("_total")
            found = Metric(name, definition.meaning, definition.kind)
            self._metrics[definition.name] = found
        return found


class _Once(Collector):
    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> Iterable[Metric]:
        return self._metrics
