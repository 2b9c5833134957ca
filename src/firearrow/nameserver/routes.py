"""The table of routes of a name server. Pure.

Nothing here reads a clock, logs or does I/O. Time is an argument (milliseconds of a steady clock), connections are
opaque objects compared by identity, and methods return their effects: notices to send, connections to close.

Invariants:

* a member's address has one lease, and a lease belongs to a member of a broker name;
* a broker name exists while it has a member, a cluster while it has a broker name;
* only known broker names hold queues;
* a registration adds and overwrites topics, it never removes any (unless ``deleteTopicWithBrokerRegistration``);
* a refused registration changes nothing.

Java: ``namesrv.routeinfo.RouteInfoManager``. What it does otherwise is in docs/reference/name-server-differences.md.
"""

from collections.abc import Iterable, Mapping

import msgspec

from firearrow.model.flags import PERM_WRITE
from firearrow.nameserver.answers import EncodedRoutes
from firearrow.nameserver.brokers import MASTER_ID, BrokerName, Lease, Member
from firearrow.nameserver.config import NameServerConfig
from firearrow.nameserver.effects import Announcement, Notice, RegistrationOutcome, RemovalOutcome
from firearrow.nameserver.queues import TopicIndex, TopicQueues
from firearrow.protocol.bodies.admin.static_topic import TopicQueueMappingInfo
from firearrow.protocol.bodies.version import DataVersion

_Key = tuple[str, str]


class Routes:
    """The table of broker names, topics and leases."""

    def __init__(self, config: NameServerConfig) -> None:
        self.config = config
        self.answers = EncodedRoutes()
        self.topics = TopicIndex(self.answers)
        self.names: dict[str, BrokerName] = {}
        self.clusters: dict[str, dict[str, None]] = {}
        self.leases: dict[_Key, Lease] = {}
        self.filter_servers: dict[_Key, list[str]] = {}
        self.mappings: dict[str, dict[str, TopicQueueMappingInfo]] = {}
        self.order_conf: Mapping[str, str] = {}
        self._by_connection: dict[object, dict[_Key, None]] = {}

    def reconfigure(self, config: NameServerConfig, order_conf: Mapping[str, str]) -> None:
        """Apply changed settings and the order configuration of topics."""
        self.config = config
        self.order_conf = order_conf
        self.answers.clear()
        for name in self.names.values():
            name.changed()

    # Registration

    def repeats(self, member: Member, digest: bytes) -> bool:
        """Whether a registration equals the member's last one, with no change of the table in between."""
        lease = self.leases.get((member.cluster, member.address))
        name = self.names.get(member.name)
        if lease is None or name is None:
            return False
        return lease.repeats == (digest, name.edition) and lease.member == member

    def renew(self, member: Member, connection: object, now_ms: int) -> RegistrationOutcome:
        """Renew the lease for a registration that ``repeats``."""
        key = (member.cluster, member.address)
        lease = self.leases[key]
        lease.seen_ms = now_ms
        self._connect(key, lease, connection)
        return self._answer(self.names[member.name], member, is_new=False, notices=())

    def register(
        self, member: Member, announced: Announcement, connection: object, now_ms: int, digest: bytes = b""
    ) -> RegistrationOutcome | None:
        """Apply a registration as a whole, or return None: an unknown member must send its whole table first."""
        name = self.names.get(member.name)
        if name is not None and self._is_overruled(name, member, announced.version):
            self.unregister([member])
            return RegistrationOutcome()
        if (name is None or member.broker_id not in name.addresses) and len(announced.topics) == 1:
            return None
        self._evict(member)
        name = self.names.setdefault(member.name, name or BrokerName(member.name, member.cluster))
        lowest = name.lowest_id
        is_first = self._seat(name, member)
        counts = self._announce(name, member, announced, is_first=is_first)
        is_new = self._lease(member, announced, connection, now_ms)
        lease = self.leases[member.cluster, member.address]
        lease.counts = counts
        lease.repeats = (digest, name.edition) if digest else None
        notices: tuple[Notice, ...] = ()
        if lowest is not None and member.broker_id < lowest and self.config.notify_min_broker_id_changed:
            notices = (_notice(name, ha_address=member.ha_address),)
        return self._answer(name, member, is_new=is_new, notices=notices)

    def _is_overruled(self, name: BrokerName, member: Member, version: DataVersion) -> bool:
        # A member at another address has the same id and a newer state: this registration is outdated.
        holder = name.addresses.get(member.broker_id)
        if holder is None or holder == member.address:
            return False
        lease = self.leases.get((member.cluster, holder))
        return lease is not None and lease.version.state_version > version.state_version

    def _evict(self, member: Member) -> None:
        # An address is one process: the earlier member of another broker name at this address no longer exists.
        lease = self.leases.get((member.cluster, member.address))
        if lease is not None and lease.member.name != member.name:
            self.unregister([lease.member])

    def _seat(self, name: BrokerName, member: Member) -> bool:
        # Returns whether the id is new. An address that had another id loses that one.
        name.clusters[member.cluster] = None
        self.clusters.setdefault(member.cluster, {})[member.name] = None
        is_news = name.describe(acting_master=bool(member.acting_master), zone=member.zone)
        others = [i for i, held in name.addresses.items() if held == member.address and i != member.broker_id]
        for other in others:
            del name.addresses[other]
        held = name.addresses.get(member.broker_id)
        if others or held != member.address:
            name.addresses[member.broker_id] = member.address
            name.changed()
            is_news = True
        if held is not None and held != member.address:
            self._drop_leases(name, held)
        self._drop_leases(name, member.address, but=member.cluster)
        if is_news:
            self.topics.touch(name.name)
        return not held

    def _announce(self, name: BrokerName, member: Member, announced: Announcement, *, is_first: bool) -> bool:
        # Returns whether the member's topics count: a slave's do only while it acts as master.
        if not name.is_led_by(member):
            return False
        if self.config.delete_topic_with_broker_registration and not announced.mappings:
            self.topics.keep(name.name, {topic for topic, _ in announced.topics})
        lease = self.leases.get((member.cluster, member.address))
        rewrite = is_first or lease is None or not lease.has_topics_of(announced.version)
        is_read_only = name.acting_master and member.broker_id != MASTER_ID
        for topic, queues in announced.topics:
            if rewrite or not self.topics.holds(name.name, topic):
                self.topics.put(topic, name.name, self._read_only(queues) if is_read_only else queues)
        for topic, mapping in announced.mappings.items() if rewrite else ():
            self.mappings.setdefault(topic, {})[mapping.bname or name.name] = mapping
            self.answers.drop(topic)
        return True

    def _read_only(self, queues: TopicQueues) -> TopicQueues:
        return self.topics.queues(queues.read, queues.write, queues.perm & ~PERM_WRITE, queues.sys_flag)

    def _lease(self, member: Member, announced: Announcement, connection: object, now_ms: int) -> bool:
        key = (member.cluster, member.address)
        lease = self.leases.get(key)
        is_new = lease is None
        if lease is None:
            lease = self.leases[key] = Lease(member, announced.version, None, now_ms)
        lease.member = member
        lease.version = announced.version
        lease.seen_ms = now_ms
        self._connect(key, lease, connection)
        if announced.filter_servers is not None and announced.filter_servers != self.filter_servers.get(key, []):
            self.filter_servers[key] = announced.filter_servers
            if not announced.filter_servers:
                del self.filter_servers[key]
            self.topics.touch(member.name)
        return is_new

    def _answer(
        self, name: BrokerName, member: Member, *, is_new: bool, notices: tuple[Notice, ...]
    ) -> RegistrationOutcome:
        master = name.addresses.get(MASTER_ID)
        lease = self.leases.get((member.cluster, master)) if master and member.broker_id != MASTER_ID else None
        if lease is None:
            return RegistrationOutcome(is_new=is_new, notices=notices)
        return RegistrationOutcome(
            master_address=master, ha_address=lease.member.ha_address, is_new=is_new, notices=notices
        )

    # Staying alive, and leaving

    def version(self, cluster: str, address: str) -> DataVersion | None:
        """Return the known edition of a member's table."""
        lease = self.leases.get((cluster, address))
        return None if lease is None else lease.version

    def heard_from(self, cluster: str, address: str, now_ms: int) -> None:
        """Renew a member's lease; do nothing for an unknown member."""
        lease = self.leases.get((cluster, address))
        if lease is not None:
            lease.seen_ms = now_ms

    def unregister(self, leaving: Iterable[Member]) -> RemovalOutcome:
        """Remove members; do nothing for an unknown member."""
        gone: list[Member] = []
        names: list[str] = []
        offline: dict[str, str] = {}
        for member in leaving:
            name = self.names.get(member.name)
            ids = [] if name is None else [i for i, held in name.addresses.items() if held == member.address]
            if name is None or not ids:
                continue
            self._drop_leases(name, member.address)
            lowest = name.lowest_id
            gone.append(member)
            if self._vacate(name, ids):
                names.append(name.name)
            elif lowest in ids:
                offline[name.name] = member.address
        return RemovalOutcome(members=tuple(gone), names=tuple(names), notices=self._offline_notices(offline))

    def expire(self, now_ms: int) -> RemovalOutcome:
        """Remove every member whose lease has expired; return the connections to close."""
        silent = [lease for lease in self.leases.values() if lease.has_expired(now_ms)]
        departed = self.unregister([lease.member for lease in silent])
        connections = dict.fromkeys(lease.connection for lease in silent)
        return msgspec.structs.replace(departed, connections=tuple(connections))

    def disconnected(self, connection: object) -> RemovalOutcome:
        """Remove every member that registered over a connection that has ended."""
        keys = self._by_connection.get(connection)
        if keys is None:
            return RemovalOutcome()
        return self.unregister([self.leases[key].member for key in keys])

    def _vacate(self, name: BrokerName, ids: Iterable[int]) -> bool:
        # Returns whether that was the last member.
        for broker_id in ids:
            del name.addresses[broker_id]
        name.changed()
        if name.addresses:
            self.topics.touch(name.name)
            if name.acting_master and MASTER_ID not in name.addresses:
                self.topics.wipe_write(name.name)
            return False
        del self.names[name.name]
        for cluster in name.clusters:
            del self.clusters[cluster][name.name]
            if not self.clusters[cluster]:
                del self.clusters[cluster]
        self.topics.remove_broker(name.name)
        return True

    def _offline_notices(self, offline: Mapping[str, str]) -> tuple[Notice, ...]:
        if not self.config.notify_min_broker_id_changed:
            return ()
        live = [(self.names[name], address) for name, address in offline.items() if name in self.names]
        return tuple(_notice(name, offline_address=address) for name, address in live if name.acting_master)

    def _connect(self, key: _Key, lease: Lease, connection: object) -> None:
        if lease.connection is not connection:
            self._disconnect(key, lease)
            lease.connection = connection
            self._by_connection.setdefault(connection, {})[key] = None

    def _disconnect(self, key: _Key, lease: Lease) -> None:
        keys = self._by_connection.get(lease.connection)
        if keys is not None:
            keys.pop(key, None)
            if not keys:
                del self._by_connection[lease.connection]

    def _drop_leases(self, name: BrokerName, address: str, but: str | None = None) -> None:
        for cluster in name.clusters:
            lease = self.leases.get((cluster, address))
            if lease is not None and lease.member.name == name.name and cluster != but:
                self._drop_lease((cluster, address))

    def _drop_lease(self, key: _Key) -> None:
        lease = self.leases.pop(key, None)
        self.filter_servers.pop(key, None)
        if lease is not None:
            self._disconnect(key, lease)

    # Topics

    def add_topic(self, topic: str, held: Mapping[str, TopicQueues]) -> bool:
        """Set a topic's queues at known broker names; refuse all of them if one is unknown."""
        if any(name not in self.names for name in held):
            return False
        for name, queues in held.items():
            self.topics.put(topic, name, queues)
            self.names[name].changed()
        return True

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Drop a topic from one cluster, or from all."""
        if cluster:
            names = [name for name in self.clusters.get(cluster, ()) if self.topics.remove(topic, name)]
        else:
            names = self.topics.remove_topic(topic)
            self.mappings.pop(topic, None)
        for name in names:
            self.names[name].changed()


def _notice(name: BrokerName, *, offline_address: str | None = None, ha_address: str | None = None) -> Notice:
    # A new member knows of itself, so the others are notified; after a departure, or if it is alone, all are.
    lowest = min(name.addresses)
    everybody = offline_address is not None or len(name.addresses) == 1
    return Notice(
        to=tuple(address for i, address in sorted(name.addresses.items()) if everybody or i != lowest),
        min_broker_id=lowest,
        min_broker_address=name.addresses[lowest],
        offline_address=offline_address,
        ha_address=ha_address,
    )
