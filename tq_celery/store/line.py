"""One producer's connection: bounded in time, and able to send a batch before it is waited for.

What it knows beside its socket is the server's clock: it asks for the time when it connects, and
every receipt says it again. So a caller can tell the server, in the server's own time, up to when a
submission still counts.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import hiredis
import redis
from redis.exceptions import NoScriptError, ResponseError

from tq_celery.errors import LateError, StoreUnavailableError
from tq_celery.settings import Settings
from tq_celery.store.client import connect
from tq_celery.store.contract import MAX_BATCH, Limits, ProducerStore, Receipt, Submission
from tq_celery.store.producer import (
    RedisProducer,
    Results,
    arguments,
    joined,
    results,
    without_too_large,
)
from tq_celery.store.scripts import SCRIPTS, translate

__all__ = ["Clock", "Line", "open_line"]

_SUBMIT = SCRIPTS["submit"]
#: Seconds that a call is given at least: a timeout of zero would mean not to wait at all.
_LEAST = 0.005

Reply = TypeVar("Reply")


class Clock:
    """How far the server's clock is ahead of this process's monotonic one, from what was heard.

    It is never estimated too high, so a moment that is given in the server's time has not come
    later than was meant.
    """

    __slots__ = ("_ahead",)

    def __init__(self) -> None:
        self._ahead: float | None = None

    @property
    def known(self) -> bool:
        """Whether the server's time has been heard."""
        return self._ahead is not None

    def hear(self, at: int, asked: float) -> None:
        """Note that the server said ``at`` (ms) to what was asked at ``asked`` (monotonic s)."""
        least, most = at - time.monotonic() * 1000, at - asked * 1000
        if self._ahead is None or not least <= self._ahead <= most:
            self._ahead = least

    def forget(self) -> None:
        """The next connection may reach another server."""
        self._ahead = None

    def server_ms(self, moment: float) -> int | None:
        """Return the server's ms at a monotonic moment."""
        return None if self._ahead is None else int(self._ahead + moment * 1000)


class _OneConnection(redis.Redis):
    """A client whose commands use one connection directly: no pool, no locks, no repeats."""

    def attach(self) -> _OneConnection:
        """Take a connection from the pool for good; it connects with the first command."""
        self.own: Any = self.connection_pool.make_connection()
        return self

    @property
    def connected(self) -> bool:
        """Whether there is a socket."""
        return self.own._sock is not None  # redis-py 8 says is_connected; 6.4 and 7 do not

    @property
    def idle(self) -> bool:
        """Whether nothing has come on the socket that nobody asked for, such as its end.

        A server that went away while nothing was asked of it is noticed before something is sent,
        so that it is certain that nothing was.
        """
        if not hasattr(select, "poll"):  # eventlet takes it away
            return not select.select([self.own._sock], [], [], 0)[0]
        waiting = select.poll()
        waiting.register(self.own._sock, select.POLLIN)
        return not waiting.poll(0)

    def be_patient(self, seconds: float) -> None:
        """Give the next command ``seconds``, connecting included."""
        own = self.own
        if own._sock is not None:
            own._sock.settimeout(seconds)
        else:
            own.socket_connect_timeout = own.socket_timeout = seconds / 2
            self._hurry_sentinels(seconds / 2)

    def _hurry_sentinels(self, seconds: float) -> None:
        """Let all sentinels together take ``seconds`` to connect and to say who is the master."""
        manager: Any = getattr(self.connection_pool, "sentinel_manager", None)
        for sentinel in manager.sentinels if manager is not None else ():
            share = seconds / 2 / len(manager.sentinels)
            sentinel.connection_pool.disconnect()
            sentinel.connection_pool.connection_kwargs |= {
                "socket_timeout": share,
                "socket_connect_timeout": share,
            }

    def send(self, *args: Any) -> None:
        """Send one command."""
        try:
            if not self.connected:
                # By itself a connection would skip the question to the sentinels.
                self.own.connect()
            # redis-py packs with the same function, after a look at every argument
            self.own.send_packed_command([hiredis.pack_command(args)])
        except BaseException:
            self.own.disconnect()
            raise

    def receive(self) -> Any:
        """Read one reply; the server's errors are raised.

        Whatever else ends this early, also a soft time limit, would leave a reply that the next
        command takes for its own: the connection is closed.
        """
        try:
            return self.own.read_response()
        except ResponseError:
            raise
        except BaseException:
            self.own.disconnect()
            raise

    def execute_command(self, *args: Any, **options: Any) -> Any:
        self.send(*args)
        return self.receive()

    def close(self) -> None:
        self.own.disconnect()
        super().close()


@dataclass(slots=True)
class Line:
    """A producer store, how to bound its calls in time, and what it knows of the server's clock.

    ``be_patient`` takes seconds for the next call. ``connect`` connects when that is needed and
    then returns the server's ms. ``start`` sends a batch and returns what waits for its results.
    """

    store: ProducerStore
    be_patient: Callable[[float], None] = lambda seconds: None
    connect: Callable[[], int | None] = lambda: None
    start: Callable[[Sequence[Submission], Limits], Callable[[], Results]] | None = None
    close: Callable[[], None] = lambda: None
    clock: Clock = field(default_factory=Clock)

    def attempt(
        self, step: Callable[[Line, Limits], Reply], limits: Limits, patience: float, give_up: float
    ) -> Reply:
        """Run ``step`` within ``patience`` seconds, held to end before ``give_up`` (monotonic s).

        A StoreUnavailableError that comes before the step was begun says that nothing was done.
        """
        asked = time.monotonic()
        self.be_patient(patience)
        try:
            at = self.connect()
        except StoreUnavailableError as error:
            error.undone = True
            raise
        if at is not None:  # perhaps another server than before
            self.clock.forget()
            self.clock.hear(at, asked)
            asked, left = time.monotonic(), asked + patience - time.monotonic()
            self.be_patient(max(left, _LEAST))
        try:
            reply = step(self, limits.until(self.clock.server_ms(give_up)))
        except LateError as error:
            self.clock.hear(error.at, asked)
            raise
        self.learn(reply, asked)
        return reply

    def begin(self, batch: Sequence[Submission], limits: Limits) -> Callable[[], Results]:
        """Send a batch; the returned call waits for its results. Longer ones are done at once."""
        if self.start is not None and len(batch) <= MAX_BATCH:
            return self.start(batch, limits)
        done = list(self.store.submit_many(batch, limits))
        return lambda: done

    def learn(self, reply: object, asked: float) -> None:
        """Take the server's time from a receipt, or from the first one in a list."""
        if isinstance(reply, list):
            reply = next((each for each in reply if isinstance(each, Receipt)), None)
        if isinstance(reply, Receipt) and self.clock.known:
            self.clock.hear(reply.at, asked)


def open_line(settings: Settings) -> Line:
    """Return a line to the server of ``settings``; it connects when it is first used."""
    client = connect(settings.url, timeout=settings.publish_timeout)
    own = _OneConnection(connection_pool=client.connection_pool).attach()
    store = RedisProducer(own, settings.namespace, settings=settings)

    def connect_now() -> int | None:
        if own.connected and own.idle:
            return None
        own.own.disconnect()
        try:
            seconds, micros = own.execute_command("TIME")
        except (redis.RedisError, OSError) as error:
            raise translate(_SUBMIT, error) from error
        return int(seconds) * 1000 + int(micros) // 1000

    def start(batch: Sequence[Submission], limits: Limits) -> Callable[[], Results]:
        sent, refused = without_too_large(batch, limits)
        if not sent:
            return lambda: joined([], refused)
        call = (1, store.keys.prefix, *arguments(sent, limits))

        def finish() -> Results:
            try:
                try:
                    reply = own.receive()
                except NoScriptError:
                    reply = own.execute_command("EVAL", _SUBMIT.text, *call)
            except (redis.RedisError, OSError) as error:
                raise translate(_SUBMIT, error) from error
            return joined(results(sent, limits, reply), refused)

        try:
            own.send("EVALSHA", _SUBMIT.sha, *call)
        except (redis.RedisError, OSError) as error:
            raise translate(_SUBMIT, error) from error
        return finish

    return Line(store, own.be_patient, connect_now, start, own.close)
