"""How ``TQ(app)`` gets at what stops tasks, and that it stays out of the way of the rest."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from celery import Celery
from celery.app.control import Control
from celery.worker.control import Panel
from celery.worker.state import REVOKE_EXPIRES

import tq_celery.app
from tq_celery import TQ
from tq_celery.errors import SettingsError, StoreUnavailableError
from tq_celery.stopping import remembered, stamps_of, task_ids_of
from tq_celery.store.contract import MAX_BATCH
from tq_celery.worker.inspecting import Inspecting
from tq_celery.worker.panel import hook_panel
from tq_celery.worker.revocations import Revocations

#: Where nobody listens.
NOWHERE = "redis://127.0.0.1:1/0"


class Special(Control):
    """A control class of the application's own."""

    def __init__(self, app: Any = None) -> None:
        super().__init__(app)
        self.heard: list[str] = []

    def ping(self, *args: Any, **options: Any) -> Any:
        return "special"

    def broadcast(self, command: str, *args: Any, **options: Any) -> Any:
        self.heard.append(command)
        return super().broadcast(command, *args, **options)


@pytest.fixture
def make_app() -> Iterator[Callable[..., Celery]]:
    made: list[Celery] = []

    def make(**options: Any) -> Celery:
        made.append(Celery("hooks", broker="memory://", set_as_current=False, **options))
        return made[-1]

    yield make
    for app in made:
        app.close()


def test_the_table_names_all_that_is_hooked(make_app):
    """Seen to fail with each row taken out, and with an attribute set beside them."""
    plain, hooked = make_app(), make_app()
    TQ(hooked, NOWHERE)
    before, after = vars(plain), vars(hooked)
    changed = {name for name in after if name not in before}
    changed |= {
        n for n in ("control_cls", "task_cls", "amqp_cls", "steps") if before[n] != after[n]
    }
    changed = {name.removesuffix("_cls") for name in changed}
    table = re.findall(r"^``app\.(\w+)", tq_celery.app.__doc__ or "", re.MULTILINE)
    assert changed == set(table)


def test_the_applications_own_control_class_is_kept(make_app):
    """Made before or after the TQ; it stays what it was, and travels with the application."""
    early = make_app(control=Special)
    control = early.control
    TQ(early, NOWHERE)
    assert early.control is control
    late = make_app(control=Special)
    TQ(late, NOWHERE)
    for app in (early, late, pickle.loads(pickle.dumps(late))):
        assert isinstance(app.control, Special)
        assert app.control.ping() == "special"
        assert type(app.control).__name__ == "Special"


def test_without_a_tq_everything_is_celerys(make_app):
    app = make_app()
    TQ(app, NOWHERE)
    make, args = pickle.loads(pickle.dumps(app.__reduce__()))
    travelled = make(*args)
    assert "tq" not in vars(travelled)
    assert travelled.control.revoke("some-id") is None
    assert travelled.control.purge() == 0


def test_eager_tasks_need_no_server_to_be_stopped(make_app):
    """Where every task runs at its call there is nothing to revoke or purge in a namespace."""
    app = make_app()
    app.conf.task_always_eager = True
    TQ(app, NOWHERE, publish_timeout=0.05)
    assert app.control.revoke("some-id") is None
    assert app.control.purge() == 0
    app.conf.task_always_eager = False
    for stop in (lambda: app.control.revoke("some-id"), app.control.discard_all):
        with pytest.raises(StoreUnavailableError, match="did not answer"):
            stop()
    assert app.control.enable_events() is None, "other commands ask no store"


def test_an_application_that_goes_on_without_the_store_is_not_stopped(make_app, caplog):
    """With ``tq_on_unavailable = "broker"`` a revocation is half done, and the log says so."""
    app = make_app(control=Special)
    TQ(app, NOWHERE, publish_timeout=0.05, on_unavailable="broker")
    assert app.control.revoke("some-id") is None
    assert app.control.heard == ["revoke"]
    (record,) = [each for each in caplog.records if "may still run" in each.getMessage()]
    assert record.levelname == "ERROR"
    with pytest.raises(StoreUnavailableError):
        app.control.purge()


def test_a_store_that_refuses_comes_after_celerys_part(make_app):
    """A wrong URL is said, once the workers have been told."""
    app = make_app(control=Special)
    TQ(app)
    app.conf.tq_url = "gopher://nowhere"
    told = app.control.revoke, app.control.purge
    for stop in (lambda: told[0]("some-id"), told[1]):
        with pytest.raises(SettingsError, match="gopher"):
            stop()
    assert app.control.heard == ["revoke"]


def test_what_celerys_arguments_stand_for():
    assert task_ids_of("a") == ["a"]
    assert task_ids_of(("a", "b")) == ["a", "b"]
    assert stamps_of({"customer": "acme", "batch": [1, 2], "none": None}) == {
        "customer": ["acme"],
        "batch": ["1", "2"],
        "none": [],
    }
    assert stamps_of(["customer=acme", "customer=x=y"]) == {"customer": ["acme", "x=y"]}
    assert remembered() == int(REVOKE_EXPIRES * 1000)


class Taker:
    """A store that takes what it is given, except while it is ``away``."""

    def __init__(self) -> None:
        self.away = False
        self.ids: list[list[str]] = []
        self.stamps: list[dict[str, list[str]]] = []

    def revoke(self, ids: list[str], *, expires: int) -> dict[str, str]:
        self._ask()
        self.ids.append(ids)
        return {}

    def revoke_stamped(self, stamps: dict[str, list[str]], *, expires: int) -> int:
        self._ask()
        self.stamps.append(stamps)
        return 0

    def _ask(self) -> None:
        if self.away:
            raise StoreUnavailableError("revoke", "away")


def test_a_worker_keeps_what_the_store_did_not_take():
    woken: list[int] = []
    revocations, store = Revocations(1_000, lambda: woken.append(1)), Taker()
    ids = [str(number) for number in range(MAX_BATCH + 1)]
    revocations.add(ids)
    revocations.add_stamps({"customer": ["acme", "globex"]})
    store.away = True
    for _ in range(2):
        with pytest.raises(StoreUnavailableError):
            revocations.write(store)  # type: ignore[arg-type]
    store.away = False
    revocations.write(store)  # type: ignore[arg-type]
    revocations.write(store)  # type: ignore[arg-type]
    assert [len(batch) for batch in store.ids] == [MAX_BATCH, 1]
    assert [each for batch in store.ids for each in batch] == ids
    assert store.stamps == [{"customer": ["acme", "globex"]}]
    assert len(woken) == 2


class _Step:
    """What Celery's control step has: a box with a mailbox node."""

    def __init__(self, handlers: Any) -> None:
        self.box = self.node = self
        self.handlers = handlers


def test_only_this_workers_mailbox_is_changed():
    """Celery's registry stays; its handlers answer; a subject that makes no sense is theirs."""
    registry = dict(Panel.data)
    answers: list[dict[str, Any]] = []

    def stock(state: Any, **arguments: Any) -> str:
        answers.append(arguments)
        return "ok"

    own = {**Panel.data, "revoke": stock}
    revocations, store = Revocations(), Taker()
    step = _Step(own)
    worker = type("Worker", (), {"steps": [object(), step]})()
    hook_panel(worker, revocations)
    hook_panel(worker, revocations)
    assert step.handlers["revoke"](None, task_id=["a", "b"], terminate=False) == "ok"
    assert step.handlers["revoke"](None, task_id=object()) == "ok"
    own["later"] = lambda state: "registered later"
    assert step.handlers["later"](None) == "registered later"
    revocations.write(store)  # type: ignore[arg-type]
    assert store.ids[0][:2] == ["a", "b"]
    assert answers[0]["task_id"] == ["a", "b"]
    assert Panel.data == registry


def test_a_mailbox_is_hooked_once_however_often_the_broker_was_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seen to fail: after each reconnection every delayed task was listed once more."""
    own = {**Panel.data, "scheduled": lambda state: []}
    step = _Step(own)
    worker = type("Worker", (), {"steps": [step]})()
    inspecting = Inspecting(None, None)  # type: ignore[arg-type]
    monkeypatch.setattr(inspecting, "scheduled", lambda hostname: ["delayed"])
    for _ in range(3):
        hook_panel(worker, Revocations())
        inspecting.hook(worker)
    state = type("State", (), {"hostname": "w"})()
    assert step.handlers["scheduled"](state) == ["delayed"]
    assert len(step.handlers.maps) == 3
