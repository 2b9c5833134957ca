"""The logs of a group's replicas, as the replicas report them, and the loss that an election of each would cause."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from firearrow.cli.environment import Reach
from firearrow.client.access import Access
from firearrow.client.doors import system_doors
from firearrow.errors import FireArrowError
from firearrow.fastjson import decode
from firearrow.model.group_state import GroupState
from firearrow.protocol.bodies.replication.replication import EpochEntryCache
from firearrow.protocol.requests.replication.replication import GetBrokerEpochCache
from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address

if TYPE_CHECKING:
    from firearrow.broker.failover.group_values import About, Seen

TIMEOUT_MS = 3_000


class Replica(NamedTuple):
    """A live replica and its report of its log."""

    number: int
    address: str
    end: int = -1
    """The end of its log; -1 where it is not known."""
    epoch: int = 0
    """The last epoch in its log."""
    why: str = ""
    """Why it is not known."""

    def __str__(self) -> str:
        """A line about it."""
        has = f"its log ends at {self.end}, in epoch {self.epoch}"
        if self.end < 0:
            has = f"not known ({self.why}); on its machine, firearrow store inspect DIRECTORY tells where its log ends"
        return f"replica {self.number} at {self.address}: {has}"


async def replicas(seen: "Seen", reach: Reach) -> list[Replica]:
    """Ask every live member how far its log goes."""
    doors = system_doors()
    tls, sign = Access(**reach).prepared(doors)
    caller = Caller(doors.network, tls=tls, sign=sign)
    try:
        return list(await asyncio.gather(*(_asked(caller, *member) for member in sorted(seen.live.items()))))
    finally:
        await caller.close()


async def _asked(caller: Caller, number: int, about: "About") -> Replica:
    try:
        reply = await caller.call(Address.parse(about.address), GetBrokerEpochCache(), timeout_ms=TIMEOUT_MS)
        cache = decode(bytes(reply.body), EpochEntryCache)
    except FireArrowError as error:
        return Replica(number, about.address, why=str(error))
    entries = cache.epoch_list or []
    return Replica(number, about.address, cache.max_offset, entries[-1].epoch if entries else 0)


def losses(group: GroupState, chosen: int, live: Mapping[int, "About"], found: list[Replica]) -> list[str]:
    """Say, line by line, what may be lost when a replica is elected by name. Pure."""
    said = [f"now: epoch {group.epoch}, master {group.master}, in sync {list(group.iss)}", *map(str, found)]
    if chosen in group.iss and chosen not in live:
        return [*said, f"replica {chosen} is in sync and not alive: nothing is lost if it starts with its directory"]
    if chosen in group.iss and live[chosen].directory == group.directory_of(chosen):
        return [*said, f"replica {chosen} is in sync: nothing that was acknowledged is lost"]
    if chosen in group.iss:
        said.append(f"replica {chosen} was in sync with another directory: everything that it lacks now is lost")
    ends = {one.number: one.end for one in found if one.end >= 0}
    if chosen not in ends:
        said.append(f"replica {chosen} does not say what it has: everything that it lacks is lost")
    for member in group.iss:
        if member == chosen:
            continue
        if member not in ends:
            said.append(f"replica {member} is in sync and does not answer: what only it has is lost, unknown how much")
        elif chosen in ends and ends[member] > ends[chosen]:
            behind = ends[member] - ends[chosen]
            said.append(f"replica {member} is in sync and has {behind} bytes more than replica {chosen}: they are lost")
    return said
