"""What a group's members keep at their coordinator, as JSON: the state of the group, and where each of them is."""

import msgspec

from firearrow.errors import BadBody
from firearrow.model.group_state import GroupState
from firearrow.runtime.coordinator.door import Snapshot


class About(msgspec.Struct, frozen=True):
    """What a live member tells about itself."""

    address: str
    """Where clients reach the broker."""
    ha_address: str
    """Where slaves reach it while it leads."""
    directory: int = 0
    """The number of its directory."""
    ails: bool = False
    """Whether it cannot take messages, and should not be elected while others can."""


class Seen(msgspec.Struct, frozen=True):
    """A group as its coordinator told of it."""

    group: GroupState | None
    raw: bytes | None
    """The state as it is kept, for the next swap."""
    live: dict[int, About]


def encode(value: GroupState | About) -> bytes:
    """Return a value as the coordinator keeps it."""
    return msgspec.json.encode(value)


def decode(snapshot: Snapshot) -> Seen:
    """Read what a coordinator keeps; raise ``BadBody`` when it is something else."""
    try:
        group = None if snapshot.group is None else msgspec.json.decode(snapshot.group, type=GroupState)
        live = {member: msgspec.json.decode(about, type=About) for member, about in snapshot.live.items()}
    except msgspec.DecodeError as error:
        raise BadBody(f"the coordinator keeps another program's values under this group's keys: {error}") from error
    return Seen(group, snapshot.group, live)
