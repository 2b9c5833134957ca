"""Encodes the answers of a name server (routes, clusters, members) from its table.

JSON is joined from parts that broker names and queues keep encoded, so a route of eight brokers costs a join of sixteen
parts, and nothing if it is cached. Members of objects are in Java's alphabetical order, without blanks (the Go client
splits addresses by hand). ``bare`` is fastjson's form, with numbers as keys.

Java: ``RouteInfoManager.pickupTopicRouteData``, ``getAllClusterInfo``, ``getBrokerMemberGroup``;
``ZoneRouteRPCHook.filterByZoneName``.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from firearrow import fastjson
from firearrow.nameserver.brokers import MASTER_ID, BrokerName, encode_addresses, encode_text
from firearrow.nameserver.queues import TopicQueues
from firearrow.nameserver.routes import Routes
from firearrow.protocol.bodies.admin.static_topic import TopicQueueMappingInfo

MEMBER_TOPIC_PREFIX: Final = "rmq_sys_SYNC_BROKER_MEMBER_"
"""Topics that the members of one broker name use among themselves: their routes show no acting master."""


def route(routes: Routes, topic: str, *, bare: bool) -> bytes | None:
    """Return the route of a topic, from the cache if possible; None if no broker has the topic."""
    kept = (routes.answers.bare if bare else routes.answers.standard).get(topic)
    if kept is not None:
        return kept
    held = routes.topics.of(topic)
    if held is None:
        return None
    encoded = _encode_route(routes, topic, held, bare=bare)
    routes.answers.keep(topic, encoded, bare=bare)
    return encoded


def route_in_zone(routes: Routes, topic: str, zone: str, *, bare: bool) -> bytes | None:
    """Return the route of a topic without the brokers of other zones, unless their master is down."""
    held = routes.topics.of(topic)
    if held is None:
        return None
    near = {name: queues for name, queues in held.items() if _is_near(routes, topic, name, queues, zone)}
    return _encode_route(routes, topic, near, bare=bare)


def cluster_info(routes: Routes) -> bytes:
    """Return every broker of every cluster, ids bare as Apache's name server always writes them."""
    brokers = [encode_text(name.name) + b":" + name.encoded(bare=True) for name in routes.names.values()]
    clusters = msgspec.json.encode({cluster: list(names) for cluster, names in routes.clusters.items()})
    return b'{"brokerAddrTable":{' + b",".join(brokers) + b'},"clusterAddrTable":' + clusters + b"}"


def member_group(routes: Routes, cluster: str, name: str) -> bytes:
    """Return the members of a broker name; an unknown name has none."""
    known = routes.names.get(name)
    addresses = encode_addresses(known.addresses if known else {}, bare=True)
    text = encode_text(name), encode_text(cluster)
    return b'{"brokerMemberGroup":{"brokerAddrs":' + addresses + b',"brokerName":%b,"cluster":%b}}' % text


def system_topics(routes: Routes) -> tuple[str | None, list[str]]:
    """Return one broker's address, and the names of clusters and brokers, which are topics too."""
    listed: dict[str, None] = {}
    for cluster, names in routes.clusters.items():
        listed[cluster] = None
        listed.update(names)
    first = next(iter(routes.names.values()), None)
    return (first.addresses[min(first.addresses)] if first else None), list(listed)


def _is_near(routes: Routes, topic: str, name: str, queues: TopicQueues, zone: str) -> bool:
    broker = routes.names[name]
    if MASTER_ID not in _addresses(routes, topic, broker, queues):
        return True
    return broker.zone is not None and broker.zone.lower() == zone.lower()


def _encode_route(routes: Routes, topic: str, held: Mapping[str, TopicQueues], *, bare: bool) -> bytes:
    brokers = [routes.names[name] for name in held]
    parts = [
        b'{"brokerDatas":[',
        b",".join([_encode_broker(routes, topic, broker, held[broker.name], bare=bare) for broker in brokers]),
        b'],"filterServerTable":',
        _encode_filter_servers(routes, brokers),
    ]
    if routes.config.order_message_enable and topic in routes.order_conf:
        parts += [b',"orderTopicConf":', encode_text(routes.order_conf[topic])]
    parts += [b',"queueDatas":[', b",".join([broker.queue_head + held[broker.name].tail for broker in brokers]), b"]"]
    if topic in routes.mappings:
        parts += [b',"topicQueueMappingByBroker":', _encode_mappings(routes.mappings[topic], bare=bare)]
    return b"".join([*parts, b"}"])


def _encode_broker(routes: Routes, topic: str, broker: BrokerName, queues: TopicQueues, *, bare: bool) -> bytes:
    addresses = _addresses(routes, topic, broker, queues)
    if addresses is broker.addresses:
        return broker.encoded(bare=bare)
    return broker.encode_with(addresses, bare=bare)


def _addresses(routes: Routes, topic: str, broker: BrokerName, queues: TopicQueues) -> Mapping[int, str]:
    # While a broker name has no master, the member with the lowest id is shown as master. It is only readable, so a
    # topic that is still writable is left unchanged.
    if not (routes.config.support_acting_master and broker.acting_master) or MASTER_ID in broker.addresses:
        return broker.addresses
    if queues.is_writable or topic.startswith(MEMBER_TOPIC_PREFIX):
        return broker.addresses
    addresses = dict(broker.addresses)
    addresses[MASTER_ID] = addresses.pop(min(addresses))
    return addresses


def _encode_filter_servers(routes: Routes, brokers: Iterable[BrokerName]) -> bytes:
    if not routes.filter_servers:
        return b"{}"
    keys = [(broker.cluster, address) for broker in brokers for address in broker.addresses.values()]
    return msgspec.json.encode({key[1]: routes.filter_servers[key] for key in keys if key in routes.filter_servers})


def _encode_mappings(mappings: Mapping[str, TopicQueueMappingInfo], *, bare: bool) -> bytes:
    return fastjson.encode_java(dict(mappings)) if bare else fastjson.encode(dict(mappings))
