"""Which faults there are, what each may destroy, and what is promised of it."""

from __future__ import annotations

from dataclasses import dataclass

from bench.experiments.serverfaults import faults

__all__ = ["FAULTS", "Fault", "Plan"]


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes of a trial; times in seconds.

    ``rate`` tasks per second flow from before the fault until ``after`` it. Beside them ``short``
    tasks run that end in the middle of the fault, and ``long`` ones that end after it.
    """

    rate: float = 100.0
    after: float = 2.5
    short: int = 4
    long: int = 6
    #: The longest that dispatch and settlement may take to go on.
    resume: float = 5.0
    #: Share of a core that a process may use while it waits for the server.
    cpu: float = 0.05
    #: Lines of one kind in a second.
    log: int = 1


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: how it happens, for how many seconds, and to what kind of server.

    ``destroys`` is what of the accepted tasks is lost by the server's own doing: nothing, the
    ``tail`` of the last second, or ``all``. ``waits``: processes wait for the server meanwhile, so
    what they use of a processor is judged. ``settles``: what ends meanwhile is settled at once, and
    nothing new is dispatched.
    """

    words: str
    happens: faults.Happening
    lasts: float = 4.0
    appendfsync: str | None = None
    destroys: str = ""
    waits: bool = True
    #: Seconds of the workers' lease: shorter than what is waited for, or else the default.
    lease: float = 2.0
    clock: bool = False
    settles: bool = False


_AT_ONCE = 30.0  # the lease where nothing has to be waited for

FAULTS: dict[str, Fault] = {
    "shutdown": Fault(
        "SHUTDOWN, append-only file, 4 s down", faults.shut_down, appendfsync="everysec"
    ),
    "kill-always": Fault(
        "SIGKILL, appendfsync always, 4 s down", faults.killed, appendfsync="always"
    ),
    "kill-everysec": Fault(
        "SIGKILL, appendfsync everysec, 4 s down", faults.killed, appendfsync="everysec",
        destroys="tail",
    ),
    "power-everysec": Fault(
        "the same, and the file's last second gone", faults.power_lost, appendfsync="everysec",
        destroys="tail",
    ),
    "shutdown-no-file": Fault(
        "SHUTDOWN, nothing on disk, 4 s down", faults.shut_down, destroys="all", lease=_AT_ONCE
    ),
    "kill-no-file": Fault(
        "SIGKILL, nothing on disk, 4 s down", faults.killed, destroys="all", lease=_AT_ONCE
    ),
    "loading": Fault(
        "restart, 5 s of LOADING", faults.loading, lasts=5.0, appendfsync="everysec"
    ),
    "flushall": Fault(
        "FLUSHALL", faults.flushed, lasts=0.0, destroys="all", waits=False, lease=_AT_ONCE
    ),
    "maxmemory": Fault("maxmemory reached for 4 s", faults.full, settles=True),
    "busy-script": Fault("a script runs for 7 s", faults.busy, lasts=7.0),
    "client-pause": Fault("CLIENT PAUSE for 7 s", faults.paused, lasts=7.0),
    "read-only": Fault("REPLICAOF for 4 s", faults.read_only),
    "script-flush": Fault(
        "SCRIPT FLUSH, ten a second", faults.scripts_flushed, lasts=3.0, waits=False,
        lease=_AT_ONCE,
    ),
    "client-kill": Fault(
        "CLIENT KILL of everyone, two a second", faults.connections_killed, lasts=3.0,
        waits=False, lease=_AT_ONCE,
    ),
    "clock-forward": Fault(
        "the server's clock jumps 1 h ahead", faults.stepped(3600), lasts=0.0, waits=False,
        lease=_AT_ONCE, clock=True,
    ),
    "clock-back": Fault(
        "the server's clock jumps 1 h back", faults.stepped(-3600), lasts=0.0, waits=False,
        lease=_AT_ONCE, clock=True,
    ),
}  # fmt: skip
