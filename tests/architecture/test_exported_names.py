"""The public names: few, grouped, and changed only on purpose."""

from __future__ import annotations

import tq_celery

PUBLIC = {
    "attaching and declaring": ["TQ", "TQTask", "Settings", "const", "tenant"],
    "what a call may raise": [
        "BulkError",
        "DuplicateTaskError",
        "OptionError",
        "PayloadTooLargeError",
        "QueueFullError",
        "SettingsError",
        "StoreError",
        "StoreUnavailableError",
        "SubmitError",
        "TQError",
        "UnsupportedTaskError",
    ],
}


def test_the_exported_names_are_these() -> None:
    expected = [name for names in PUBLIC.values() for name in names]
    assert tq_celery.__all__ == expected


def test_every_exported_name_exists_and_says_what_it_is() -> None:
    for name in tq_celery.__all__:
        thing = getattr(tq_celery, name)
        assert thing.__doc__, f"{name} has no docstring"
