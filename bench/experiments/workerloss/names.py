"""What the experiment and the application in its workers agree on."""

from __future__ import annotations

__all__ = ["DEADLY", "EAT", "KILLED"]

#: Files beside the gate of the tasks that hold: the first body to take away the one has to go, and
#: leaves its process id and its task id in the other.
EAT, KILLED = "eat", "victim"
#: The fault that a task brings along.
DEADLY = "deadly"
