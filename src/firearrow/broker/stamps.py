"""What the broker puts on every message it stores and on every answer to a send."""

from typing import Final

import msgspec

from firearrow.model import Address as Host
from firearrow.model import keys
from firearrow.protocol.conversation import Fields
from firearrow.record.hosts import HostBytes, host_bytes
from firearrow.record.properties import format_properties
from firearrow.remoting.handlers import Call, Peer

BORN: Final = object()
"""Where a connection keeps its peer's address as records hold it."""


class SendMarks(Fields, frozen=True, kw_only=True, gc=False):
    """What every refusal of a send carries."""

    msg_region: str = msgspec.field(name="MSG_REGION")
    trace_on: bool = msgspec.field(name="TRACE_ON")


class Stamps(msgspec.Struct, frozen=True):
    """What the broker puts on every message and every answer."""

    marks: SendMarks
    suffix: bytes
    store_host: HostBytes
    id_prefix: str

    @classmethod
    def make(cls, region: str, cluster: str, store_host: HostBytes, *, trace_on: bool) -> "Stamps":
        """Stamps of a broker."""
        stored = {keys.MSG_REGION: region, keys.TRACE_ON: str(trace_on).lower(), keys.CLUSTER: cluster}
        return cls(
            marks=SendMarks(msg_region=region, trace_on=trace_on),
            suffix=format_properties(stored).encode(),
            store_host=store_host,
            id_prefix=store_host.hex().upper(),
        )


def born_host(call: Call) -> HostBytes:
    """Where the sender is, as records hold it; remembered with its connection."""
    return born_of(call.peer)


def born_of(peer: Peer) -> HostBytes:
    """Where a peer is, as records hold it; remembered with its connection."""
    slots = peer.slots
    born: HostBytes | None = slots.get(BORN)
    if born is None:
        address = peer.address
        born = slots[BORN] = host_bytes(Host(address.host.partition("%")[0], address.port))
    return born
