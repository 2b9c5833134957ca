"""Faults of the machines of a group that fails over: what dies, what is lost, how a member returns."""

import asyncio
import itertools
import random
from collections import Counter
from typing import Final

from msgspec.structs import replace

from firearrow.testing.sim.world import World
from tests.unit.broker.test_failover_group import Group, Member

MACHINES: Final = (
    "crash", "crash of a slave", "power", "freeze", "freeze of a slave", "clock step", "stop", "full disk",
    "slow tables", "another address",
)  # fmt: skip
DESTRUCTIVE: Final = ("disk loss", "power of all", "power of two, crash of the third")
OF_ANYBODY: Final = ("disk loss", "full disk", "another address")
FLUSH_MODES: Final = ("SYNC_FLUSH", "ASYNC_FLUSH")
SLOW_TABLE_S: Final = 3.0


class Strikes:
    """Strikes the machines of a group, one fault at a time."""

    def __init__(self, world: World, group: Group, rng: random.Random, counts: Counter[str], *, changes: bool) -> None:
        """``changes`` is whether members return with another flush mode now and then."""
        self._world = world
        self._group = group
        self._rng = rng
        self._counts = counts
        self._changes = changes
        self._moves = 0

    @property
    def all_sync(self) -> bool:
        """Whether no member acknowledges what it has not synced."""
        return all(member.settings.log.syncs_first for member in self._group.members.values())

    async def strike(self, kind: str, master: int, slaves: list[int]) -> None:
        """Let a fault happen, wait, and mend it."""
        is_slave = "slave" in kind or (
            kind in ("disk loss", "full disk", "another address") and self._rng.random() < 0.5
        )
        number = self._rng.choice(slaves) if is_slave else master
        member = self._group.members[number]
        if kind.startswith("power of"):
            await self._cut_power(kind, number)
        elif kind == "slow tables":
            for slave in slaves:
                self._group.members[slave].node.image.slow("config", SLOW_TABLE_S)
        else:
            await self._strike_one(kind, member)
        await asyncio.sleep(self._rng.choice((0.1, 1.0, 6.0)))
        if kind.startswith("freeze"):
            member.node.thaw()
        for other in self._group.members.values():
            other.node.image.mend()
        if kind == "another address":
            self._move(member)
        self.start_again()

    async def _strike_one(self, kind: str, member: Member) -> None:
        node = member.node
        if kind == "clock step":
            node.clock.jump(self._rng.choice((-1, 1)) * self._rng.randint(500, 15_000))
        elif kind == "stop":
            await node.stop()
        elif kind in ("power", "another address"):
            await node.power_loss()
        elif kind == "disk loss":
            await node.lose_disk()
        elif kind == "full disk":
            node.image.leave_free(0)
        elif kind.startswith("freeze"):
            node.freeze()
        else:
            await node.crash()

    async def _cut_power(self, kind: str, keeper: int) -> None:
        """Cut the power of all, or of all but one, which crashes and returns last."""
        if self._rng.random() < 0.5:
            await self._reset_connections()
        for number, member in self._group.members.items():
            is_kept = number == keeper and kind != "power of all"
            await (member.node.crash() if is_kept else member.node.power_loss())
        if kind != "power of all":
            self.start_again(without=keeper)
            await asyncio.sleep(self._rng.choice((1.0, 10.0, 20.0)))

    async def _reset_connections(self) -> None:
        """Break the connections between all brokers, while some of what they copied may not be synced."""
        names = [member.node.name for member in self._group.members.values()]
        for left, right in itertools.combinations(names, 2):
            self._world.network.reset(left, right)
        await asyncio.sleep(self._rng.uniform(0.0, 0.3))

    def _move(self, member: Member) -> None:
        """Put the disk of a member into another machine."""
        self._moves += 1
        number = member.settings.broker.broker_id
        machine = self._world.node(f"broker{number}, machine {self._moves}")
        machine.take_disk(member.node)
        member.node = machine

    def start_again(self, *, without: int = 0) -> None:
        """Start the members that do not run, some with another flush mode."""
        for number, member in self._group.members.items():
            if not member.node.running and number != without:
                if self._changes and self._rng.random() < 0.3:
                    self._counts["another flush mode"] += 1
                    log = replace(member.settings.log, flush_disk_type=self._rng.choice(FLUSH_MODES))
                    member.settings = replace(member.settings, log=log)
                member.node.start(member.run)
