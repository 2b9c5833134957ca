"""A broker name with its members, and what keeps each member alive.

A *member* is one process: master 0 or a slave, at one address. A *broker name* has one member for each id; an address
holds one id at most. ``Lease`` is a member's claim to be alive: renewed by registrations, data version queries and
heartbeats, ended by its own timeout, by its connection's end, or by leaving. Java: ``route.BrokerData`` and
``routeinfo.BrokerLiveInfo``.
"""

from collections.abc import Mapping

import msgspec

from firearrow.protocol.bodies.version import DataVersion

MASTER_ID = 0


class Member(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How a broker introduces itself when it registers. ``acting_master`` is None when it is older than 5.0."""

    cluster: str
    address: str
    name: str
    broker_id: int
    ha_address: str | None = None
    zone: str | None = None
    timeout_ms: int
    acting_master: bool | None = None


class Lease(msgspec.Struct):
    """A member's claim to be alive.

    ``counts`` says whether the topics of that edition were taken over (a slave's are not while it has a master).
    ``repeats`` is what the last registration said, as a digest, with the edition of the broker name it left behind: the
    same digest at the same edition changes nothing.
    """

    member: Member
    version: DataVersion
    connection: object
    seen_ms: int
    counts: bool = False
    repeats: tuple[bytes, int] | None = None

    def has_expired(self, now_ms: int) -> bool:
        """Whether the member has been silent for longer than it said it would be."""
        return self.seen_ms + self.member.timeout_ms < now_ms


class BrokerName:
    """One broker name: its members by id, and its part of every answer that shows it, encoded."""

    def __init__(self, name: str, cluster: str) -> None:
        self.name = name
        self.cluster = cluster
        self.clusters: dict[str, None] = {}
        self.addresses: dict[int, str] = {}
        self.acting_master = False
        self.zone: str | None = None
        self.edition = 0
        self.queue_head = b'{"brokerName":' + encode_text(name)
        self._encoded: dict[bool, bytes] = {}

    @property
    def lowest_id(self) -> int | None:
        """The id that stands for the name when there is no master."""
        return min(self.addresses, default=None)

    def describe(self, *, acting_master: bool, zone: str | None) -> bool:
        """Take over what the last registration said of the whole name; return whether it is news."""
        if (self.acting_master, self.zone) == (acting_master, zone):
            return False
        self.acting_master = acting_master
        self.zone = zone
        self.changed()
        return True

    def changed(self) -> None:
        """Note that a member or a topic came or went: nothing encoded holds, no registration is a repetition."""
        self.edition += 1
        self._encoded.clear()

    def encoded(self, *, bare: bool) -> bytes:
        """Return the name with its members as JSON (Java: ``BrokerData``)."""
        found = self._encoded.get(bare)
        if found is None:
            found = self._encoded[bare] = self.encode_with(self.addresses, bare=bare)
        return found

    def encode_with(self, addresses: Mapping[int, str], *, bare: bool) -> bytes:
        """Return the same with other addresses in place of its own."""
        parts = [
            b'{"brokerAddrs":',
            encode_addresses(addresses, bare=bare),
            b',"brokerName":',
            encode_text(self.name),
            b',"cluster":',
            encode_text(self.cluster),
            b',"enableActingMaster":',
            b"true" if self.acting_master else b"false",
        ]
        if self.zone is not None:
            parts += [b',"zoneName":', encode_text(self.zone)]
        return b"".join([*parts, b"}"])


def encode_addresses(addresses: Mapping[int, str], *, bare: bool) -> bytes:
    """Return addresses by id as JSON; ``bare`` writes the ids as fastjson does, without quotes."""
    template = b"%d:%b" if bare else b'"%d":%b'
    return b"{" + b",".join([template % (key, encode_text(addresses[key])) for key in sorted(addresses)]) + b"}"


def encode_text(text: str) -> bytes:
    """Return a JSON string."""
    return msgspec.json.encode(text)
