"""The values of a group at its coordinator, as JSON: the state of the group, and the addresses of each member."""

import msgspec

from firearrow.errors import BadBody
from firearrow.model.group_state import GroupState
from firearrow.runtime.coordinator.door import GroupSnapshot


class MemberFacts(msgspec.Struct, frozen=True):
    """The facts that a live member publishes about itself."""

    address: str
    """The address at which clients reach the broker."""
    ha_address: str
    """The address at which slaves reach the broker while it leads."""
    directory: int = 0
    """The number of its directory."""
    ails: bool = False
    """Whether the broker cannot take messages, and should not be elected while others can."""
    tells_tables: bool = False
    """Whether the broker tells its master which table changes it has; members of older versions do not."""


class GroupView(msgspec.Struct, frozen=True):
    """A group as its coordinator told of it."""

    group: GroupState | None
    raw: bytes | None
    """The state as it is kept, for the next swap."""
    live: dict[int, MemberFacts]


def encode(value: GroupState | MemberFacts) -> bytes:
    """Return a value as the coordinator keeps it."""
    return msgspec.json.encode(value)


def decode(snapshot: GroupSnapshot) -> GroupView:
    """Read what a coordinator keeps; raise ``BadBody`` when it is something else."""
    try:
        group = None if snapshot.group is None else msgspec.json.decode(snapshot.group, type=GroupState)
        live = {member: msgspec.json.decode(about, type=MemberFacts) for member, about in snapshot.live.items()}
    except msgspec.DecodeError as error:
        raise BadBody(f"the coordinator keeps another program's values under this group's keys: {error}") from error
    if group is not None and not group.is_sound:
        raise BadBody(
            f"the coordinator keeps a state out of range, {msgspec.json.encode(group).decode()}: nobody obeys it. Put "
            "another one in its place with firearrow failover elect, with --epoch above those that replicas know"
        )
    return GroupView(group, snapshot.group, live)
