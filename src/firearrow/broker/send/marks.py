"""Marks: region, trace and cluster, which the broker puts on stored messages and on answers to sends."""

from typing import Final

import msgspec

from firearrow.model import Host, keys
from firearrow.protocol.conversation import Fields
from firearrow.record.hosts import HostBytes, host_bytes
from firearrow.record.properties import format_properties
from firearrow.remoting.handlers import Call, Peer

BORN: Final = object()
"""The slot of a connection that holds its peer's address as records hold it."""


class AnswerMarks(Fields, frozen=True, kw_only=True, gc=False):
    """The marks that every refusal of a send carries."""

    msg_region: str = msgspec.field(name="MSG_REGION")
    trace_on: bool = msgspec.field(name="TRACE_ON")


class SendMarks(msgspec.Struct, frozen=True):
    """The marks of one broker, ready for records and for answers."""

    on_answers: AnswerMarks
    suffix: bytes
    store_host: HostBytes
    id_prefix: str

    @classmethod
    def make(cls, region: str, cluster: str, store_host: HostBytes, *, trace_on: bool) -> "SendMarks":
        """Return the marks of a broker."""
        stored = {keys.MSG_REGION: region, keys.TRACE_ON: str(trace_on).lower(), keys.CLUSTER: cluster}
        return cls(
            on_answers=AnswerMarks(msg_region=region, trace_on=trace_on),
            suffix=format_properties(stored).encode(),
            store_host=store_host,
            id_prefix=store_host.hex().upper(),
        )


def born_host(call: Call) -> HostBytes:
    """Return the address of the sender as records hold it, cached with its connection."""
    return born_of(call.peer)


def born_of(peer: Peer) -> HostBytes:
    """Return the address of a peer as records hold it, cached with its connection."""
    slots = peer.slots
    born: HostBytes | None = slots.get(BORN)
    if born is None:
        address = peer.address
        born = slots[BORN] = host_bytes(Host(address.host.partition("%")[0], address.port))
    return born
