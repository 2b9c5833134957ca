"""The indexed table against the naive one, over any history of registrations, departures, silence and operators."""

import hypothesis.strategies as st
import msgspec
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from firearrow import fastjson
from firearrow.nameserver import pictures
from firearrow.nameserver.brokers import Member
from firearrow.nameserver.config import NameServerConfig
from firearrow.nameserver.effects import Announcement
from firearrow.nameserver.routes import Routes
from firearrow.protocol.bodies.naming.route import ClusterInfo, TopicRouteData
from firearrow.protocol.bodies.version import DataVersion
from tests.property.nameserver.naive import Naive

TOPICS = ["T", "U", "V", "W"]
names = st.sampled_from(["a", "b", "c"])
clusters = st.sampled_from(["C", "C", "C", "D"])
addresses = st.sampled_from(["x:1", "y:1", "z:1", "w:1"])
connections = st.sampled_from(["wire1", "wire2", "wire3"])
members = st.builds(
    Member,
    cluster=clusters,
    address=addresses,
    name=names,
    broker_id=st.integers(0, 2),
    ha_address=st.just("ha"),
    zone=st.none(),
    timeout_ms=st.sampled_from([5_000, 120_000]),
    acting_master=st.sampled_from([None, False, True]),
)
versions = st.builds(DataVersion, counter=st.integers(0, 2), state_version=st.integers(0, 2), timestamp=st.just(1))
tables = st.dictionaries(st.sampled_from(TOPICS), st.sampled_from([4, 6]), max_size=4)


class TableMachine(RuleBasedStateMachine):
    """Every rule is done to both tables; every invariant looks at both."""

    @initialize(whole_tables=st.booleans())
    def start(self, whole_tables: bool) -> None:
        self.routes = Routes(NameServerConfig(delete_topic_with_broker_registration=whole_tables))
        self.naive = Naive(whole_tables=whole_tables)
        self.now_ms = 0
        self.said: list[tuple[Member, DataVersion, dict[str, int]]] = []

    @rule(who=members, version=versions, perms=tables, connection=connections)
    def register(self, who: Member, version: DataVersion, perms: dict[str, int], connection: str) -> None:
        digest = msgspec.json.encode([version, perms])
        if self.routes.repeats(who, digest):
            self.routes.renew(who, connection, self.now_ms)
            taken = True
        else:
            topics = [(topic, self.routes.topics.queues(4, 4, perm, 0)) for topic, perm in perms.items()]
            announced = Announcement(version=version, topics=topics)
            taken = self.routes.register(who, announced, connection, self.now_ms, digest) is not None
        assert taken == self.naive.register(who, version, perms, connection, self.now_ms)
        self.said.append((who, version, perms))

    @rule(data=st.data(), connection=connections)
    def register_again(self, data: st.DataObject, connection: str) -> None:
        if self.said:
            who, version, perms = data.draw(st.sampled_from(self.said[-5:]))
            self.register(who, version, perms, connection)

    @rule(who=members)
    def unregister(self, who: Member) -> None:
        self.routes.unregister([who])
        self.naive.unregister(who)

    @rule(connection=connections)
    def disconnect(self, connection: str) -> None:
        self.routes.disconnected(connection)
        self.naive.disconnect(connection)

    @rule(passed_ms=st.sampled_from([1_000, 5_001, 60_000, 120_001]))
    def pass_time(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        self.routes.expire(self.now_ms)
        self.naive.expire(self.now_ms)

    @rule(cluster=clusters, address=addresses)
    def heartbeat(self, cluster: str, address: str) -> None:
        self.routes.heard_from(cluster, address, self.now_ms)
        held = self.naive.leases.get((cluster, address))
        if held:
            self.naive.leases[cluster, address] = held._replace(seen_ms=self.now_ms)

    @rule(name=names, writable=st.booleans())
    def set_permission(self, name: str, writable: bool) -> None:
        topics = self.routes.topics
        count = topics.add_write(name) if writable else topics.wipe_write(name)
        assert count == len(self.naive.topics_of(name))
        self.naive.set_perms(name, writable=writable)

    @rule(topic=st.sampled_from(TOPICS), cluster=st.sampled_from([None, "C", "D"]))
    def delete_topic(self, topic: str, cluster: str | None) -> None:
        self.routes.delete_topic(topic, cluster)
        for key in list(self.naive.queues):
            if key[0] == topic and (cluster is None or (cluster, key[1]) in self.naive.listed):
                del self.naive.queues[key]

    @rule(topic=st.sampled_from(TOPICS), brokers=st.sets(names, min_size=1))
    def add_topic(self, topic: str, brokers: set[str]) -> None:
        queues = self.routes.topics.queues(4, 4, 6, 0)
        added = self.routes.add_topic(topic, dict.fromkeys(sorted(brokers), queues))
        assert added == all(self.naive.ids(name) for name in brokers)
        if added:
            self.naive.queues |= {(topic, name): 6 for name in brokers}

    @invariant()
    def routes_are_equal(self) -> None:
        for topic in TOPICS:
            for bare in (False, True):
                encoded = pictures.route(self.routes, topic, bare=bare)
                expected = self.naive.route(topic)
                assert (encoded is None) == (not expected)
                if encoded is not None:
                    assert shown(encoded) == expected

    @invariant()
    def lists_are_equal(self) -> None:
        topics = self.routes.topics
        assert sorted(topics.topics()) == sorted({topic for topic, _ in self.naive.queues})
        for name in ("a", "b", "c"):
            assert set(topics.at(name)) == self.naive.topics_of(name)
        info = fastjson.decode(pictures.cluster_info(self.routes), ClusterInfo)
        assert info.cluster_addr_table is not None
        assert {(c, n) for c, held in info.cluster_addr_table.items() for n in held} == self.naive.listed

    @invariant()
    def leases_are_equal(self) -> None:
        assert {key: (lease.seen_ms, lease.version) for key, lease in self.routes.leases.items()} == {
            key: (held.seen_ms, held.version) for key, held in self.naive.leases.items()
        }

    @invariant()
    def every_member_has_a_lease(self) -> None:
        for name in self.routes.names.values():
            for address in name.addresses.values():
                leases = [lease.member for lease in self.routes.leases.values()]
                held = [who for who in leases if who.address == address and who.name == name.name]
                assert len(held) == 1, (name.name, address, held)
        assert len(self.routes.leases) == sum(len(name.addresses) for name in self.routes.names.values())


def shown(encoded: bytes) -> dict[str, tuple[int, dict[int, str]]]:
    """A route as the naive table says it."""
    route = fastjson.decode(encoded, TopicRouteData)
    members = {broker.broker_name: broker.broker_addrs for broker in route.broker_datas}
    assert len(members) == len(route.broker_datas) == len(route.queue_datas)
    return {str(queue.broker_name): (queue.perm, members[queue.broker_name]) for queue in route.queue_datas}


TestTable = TableMachine.TestCase
TestTable.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
