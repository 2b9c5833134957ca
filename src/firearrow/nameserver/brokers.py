"""A broker name with its members, and the lease of each member.

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
    """A broker's description of itself at registration. ``acting_master`` is None for brokers before 5.0."""

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

    ``counts`` says whether the topics of that edition are in the table (a slave's are not while it has a master).
    ``repeats`` is the digest of the last registration with the edition of the broker name after it: a registration with
    the same digest at the same edition is a no-op.
    """

    member: Member
    version: DataVersion
    connection: object
    seen_ms: int
    counts: bool = False
    repeats: tuple[bytes, int] | None = None

    def has_topics_of(self, version: DataVersion) -> bool:
        """Whether the topics of this edition are in the table."""
        return self.counts and self.version == version

    def has_expired(self, now_ms: int) -> bool:
        """Whether the member has been silent for longer than its timeout."""
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
        """The lowest id of the members, which acts as master if there is none."""
        return min(self.addresses, default=None)

    def is_led_by(self, member: Member) -> bool:
        """Whether a member is the master, or acts as one: the lowest of the slaves that may."""
        if member.broker_id == MASTER_ID:
            return True
        return member.acting_master is not None and member.broker_id == self.lowest_id

    def describe(self, *, acting_master: bool, zone: str | None) -> bool:
        """Update the fields of the whole name from a registration; return whether they changed."""
        if (self.acting_master, self.zone) == (acting_master, zone):
            return False
        self.acting_master = acting_master
        self.zone = zone
        self.changed()
        return True

    def changed(self) -> None:
        """Note that a member or topic changed: drop encoded parts, and treat the next registrations as new."""
        self.edition += 1
        self._encoded.clear()

    def encoded(self, *, bare: bool) -> bytes:
        """Return the name with its members as JSON (Java: ``BrokerData``)."""
        found = self._encoded.get(bare)
        if found is None:
            found = self._encoded[bare] = self.encode_with(self.addresses, bare=bare)
        return found

    def encode_with(self, addresses: Mapping[int, str], *, bare: bool) -> bytes:
        """Return the name as JSON with other addresses."""
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
