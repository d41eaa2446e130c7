"""Several runs of one configuration as one: other cells, other machines, the same question."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from bench.harness.errors import BenchError
from bench.harness.results import stored
from bench.harness.results.atomic import PARTIAL
from bench.harness.results.manifest import Manifest

__all__ = ["merge"]


def merge(out: Path, sources: Sequence[Path]) -> None:
    """Put the cells of ``sources`` into the new folder ``out``, each with its provenance.

    All at once or not at all. BenchError when the configurations differ (the field is named), a
    cell is there twice, a note differs, or ``out`` exists.
    """
    if len(sources) < 2:
        raise BenchError("merge needs two runs or more")
    if out.exists():
        raise BenchError(f"{out} exists: merge makes a new folder")
    manifests = [Manifest.read(source) for source in sources]
    first = manifests[0]
    for source, manifest in zip(sources[1:], manifests[1:], strict=True):
        difference = first.difference(manifest, cells=False)
        if difference is not None:
            raise BenchError(f"{sources[0]} and {source} differ: {difference}")
    owner: dict[str, Path] = {}
    for source in sources:
        for name in stored.names(source):
            if name in owner:
                raise BenchError(f"cell {name} is in both {owner[name]} and {source}")
            owner[name] = source
    together = _together(sources, manifests)
    partial = out.with_name(out.name + PARTIAL)
    shutil.rmtree(partial, ignore_errors=True)
    try:
        stored.prepare(partial)
        shift = 0
        for source, manifest in zip(sources, manifests, strict=True):
            for name in stored.names(source):
                stored.copy(source, partial, name, shift)
            shift += len(manifest.sessions)
        together.write(partial)
        partial.rename(out)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise BenchError(f"{out} cannot be written to: {error.strerror}") from error
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _together(sources: Sequence[Path], manifests: Sequence[Manifest]) -> Manifest:
    first = manifests[0]
    merged = Manifest(first.experiment, first.profile, first.settings, [], {})
    for source, manifest in zip(sources, manifests, strict=True):
        merged.cells += [cell for cell in manifest.cells if cell not in merged.cells]
        merged.seeds |= manifest.seeds
        for name, value in manifest.notes.items():
            known = merged.notes.setdefault(name, value)
            if known != value:
                raise BenchError(f"{sources[0]} and {source} differ: notes.{name}")
        merged.sessions += [{"from": source.name, **session} for session in manifest.sessions]
    return merged
