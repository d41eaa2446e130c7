"""The arms: how the replication is when the primary dies, and what is done against that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["ARMS", "Arm", "Plan"]

#: ``none``: replicas follow; ``cut``: their connections are reset and refused; ``stall``: they stay
#: open and nothing comes through, so that neither end knows.
Fault = Literal["none", "cut", "stall"]
#: Who dies with the primary, beside it.
Dying = Literal["nobody", "schedulers", "everybody"]


@dataclass(frozen=True, slots=True)
class Plan:
    """Times in seconds, ``rate`` in submissions per second, ``batch`` of them in a call."""

    rate: float = 100.0
    batch: int = 10
    task_seconds: float = 0.002
    slots: int = 8
    ttl: float = 2.0
    lease: float = 5.0
    #: Of each call, after which its caller is told that it failed.
    publish_timeout: float = 0.5
    #: From the first submission until the fault, and until the primary dies.
    before: float = 2.0
    held: float = 5.0
    #: How long submissions go on from the first one.
    seconds: float = 15.0
    #: How long the leader that was frozen when the primary died stays so after another one leads.
    afterwards: float = 1.0
    #: Silence after which a Sentinel acts.
    down_after: float = 2.0
    #: Age of a replica's last word above which ``min-replicas-to-write`` does not count it.
    max_lag: int = 2


@dataclass(frozen=True, slots=True)
class Arm:
    """One state of affairs when the primary dies.

    ``plain``: schedulers that give epochs from the server's counter alone. ``leader_replicas``: the
    setting. ``min_replicas``: the server's ``min-replicas-to-write``. ``dying``: who dies with the
    primary, and what it knew of epochs with it. ``leads``: a second scheduler leads before it dies;
    None where either may be. ``lives``: the primary does not die but lives on with its clients, cut
    off from its replicas and the Sentinels, and comes back.
    """

    name: str
    fault: Fault
    plain: bool = False
    leader_replicas: int = 0
    min_replicas: int = 0
    dying: Dying = "nobody"
    leads: bool | None = True
    lives: bool = False

    def server(self, plan: Plan) -> dict[str, str]:
        """Return the settings of the three data servers."""
        return {
            "min-replicas-to-write": str(self.min_replicas),
            "min-replicas-max-lag": str(plan.max_lag),
        }


ARMS = {
    arm.name: arm
    for arm in (
        Arm("caught-up", "none"),
        Arm("cut-plain", "cut", plain=True),
        Arm("cut", "cut"),
        Arm("cut-workers-know", "cut", dying="schedulers"),
        Arm("cut-forgotten", "cut", dying="everybody"),
        Arm("cut-wait", "cut", leader_replicas=1, leads=False),
        Arm("cut-min-replicas", "cut", min_replicas=1, leads=False),
        Arm("stall-min-replicas", "stall", min_replicas=1, leads=None),
        Arm("apart", "cut", lives=True),
        Arm("apart-min-replicas", "cut", min_replicas=1, leads=False, lives=True),
    )
}
