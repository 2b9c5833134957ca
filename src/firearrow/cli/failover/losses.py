"""The logs of a group's replicas, as the replicas report them, and the loss that an election of each would cause."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from firearrow.cli.environment import LOCAL_NAME_SERVER, AccessOptions
from firearrow.errors import FireArrowError
from firearrow.model.group_state import GroupState

if TYPE_CHECKING:
    from firearrow.admin import Admin
    from firearrow.broker.failover.group_values import GroupView, MemberFacts

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
    """The reason why it is not known."""

    def __str__(self) -> str:
        """A line about it."""
        has = f"its log ends at {self.end}, in epoch {self.epoch}"
        if self.end < 0:
            has = f"not known ({self.why}); on its machine, firearrow store inspect DIRECTORY tells where its log ends"
        return f"replica {self.number} at {self.address}: {has}"


async def replicas(seen: "GroupView", reach: AccessOptions) -> list[Replica]:
    """Ask every live member how far its log goes."""
    from firearrow.admin import Admin

    async with Admin(LOCAL_NAME_SERVER, timeout_ms=TIMEOUT_MS, **reach) as admin:
        return list(await asyncio.gather(*(_asked(admin, *member) for member in sorted(seen.live.items()))))


async def _asked(admin: "Admin", number: int, about: "MemberFacts") -> Replica:
    try:
        cache = await admin.operations.epochs(about.address)
    except FireArrowError as error:
        return Replica(number, about.address, why=str(error))
    entries = cache.epoch_list or []
    return Replica(number, about.address, cache.max_offset, entries[-1].epoch if entries else 0)


def losses(group: GroupState, chosen: int, live: Mapping[int, "MemberFacts"], found: list[Replica]) -> list[str]:
    """Say, line by line, what may be lost when a replica is elected by name. Pure."""
    said = [f"now: epoch {group.epoch}, master {group.master}, in sync {list(group.iss)}", *map(str, found)]
    if chosen in group.iss and chosen not in live:
        return [*said, f"replica {chosen} is in sync and not alive: nothing is lost if it starts with its directory"]
    if chosen in group.iss and live[chosen].directory == group.directory_of(chosen):
        return [*said, f"replica {chosen} is in sync: nothing that was acknowledged is lost"]
    if chosen in group.iss:
        said.append(f"replica {chosen} was in sync with another directory: everything that it lacks now is lost")
    return said + _lost(group, chosen, {one.number: one.end for one in found if one.end >= 0})


def _lost(group: GroupState, chosen: int, ends: Mapping[int, int]) -> list[str]:
    """Say what the chosen replica lacks, by the ends of the logs that are known."""
    said = []
    if chosen not in ends:
        said.append(f"replica {chosen} does not say what it has: everything that it lacks is lost")
    for member in group.iss:
        if member not in ends and member != chosen:
            said.append(f"replica {member} is in sync and does not answer: what only it has is lost, unknown how much")
        elif chosen in ends and ends.get(member, -1) > ends[chosen]:
            behind = ends[member] - ends[chosen]
            said.append(f"replica {member} is in sync and has {behind} bytes more than replica {chosen}: they are lost")
    return said
