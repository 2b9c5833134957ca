"""Faults of the master of a group, and their mending."""

from collections.abc import Sequence
from typing import Final, Literal

from campaigns.failover.group import Group
from campaigns.failover.network import BROKERS, CLIENTS, COORDINATORS

Fault = Literal["kill", "freeze", "from-coordinator", "from-slaves", "from-clients", "disk-full"]
FAULTS: Final[tuple[Fault, ...]] = ("kill", "freeze", "from-coordinator", "from-slaves", "from-clients", "disk-full")
"""In the order of their turn: by number, so that every six failovers have had each."""
ON_LOOPBACK: Final = ("kill", "freeze")
"""Faults that need neither namespaces nor small disks, so no root."""
NO_ELECTION: Final = ("from-clients",)
"""Faults that the group cannot see, so it keeps its master; clients go on when the fault is over."""


def possible(*, divisible: bool) -> tuple[Fault, ...]:
    """The faults that can be made where machines can, or cannot, be divided from each other."""
    return tuple(fault for fault in FAULTS if divisible or fault in ON_LOOPBACK)


def inflict(group: Group, fault: Fault, master: int) -> None:
    """Let a fault happen to the master."""
    machine = BROKERS[master - 1]
    match fault:
        case "kill":
            group.kill(master)
        case "freeze":
            group.freeze(master)
        case "disk-full":
            group.disks.fill(machine)
        case _:
            group.network.divide(machine, _others(fault, machine))


def mend(group: Group, fault: Fault, master: int) -> None:
    """End a fault."""
    machine = BROKERS[master - 1]
    match fault:
        case "kill":
            group.start(master)
        case "freeze":
            group.thaw(master)
        case "disk-full":
            group.disks.free(machine)
        case _:
            group.network.join(machine, _others(fault, machine))


def _others(fault: Fault, machine: str) -> Sequence[str]:
    match fault:
        case "from-coordinator":
            return COORDINATORS
        case "from-slaves":
            return [broker for broker in BROKERS if broker != machine]
        case _:
            return (CLIENTS,)
