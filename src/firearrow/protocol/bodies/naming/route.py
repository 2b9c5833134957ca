"""Routes: the route of a topic, the brokers of a cluster, the members of a broker name.

Java: ``remoting.protocol.route`` and ``remoting.protocol.body.ClusterInfo``, ``BrokerMemberGroup``, ``TopicList``,
``KVTable``. Maps keyed by a broker id have bare numeric keys when Java writes them.
"""

from firearrow.protocol.bodies.admin.static_topic import TopicQueueMappingInfo
from firearrow.protocol.bodies.body import Body, always, empty_list, empty_map
from firearrow.protocol.conversation import Int32, Int64


class BrokerData(Body, frozen=True, kw_only=True):
    """The addresses under one broker name. ``enable_acting_master`` and ``zone_name`` are new in 5.x."""

    broker_addrs: dict[Int64, str] = empty_map()
    broker_name: str | None = None
    cluster: str | None = None
    enable_acting_master: bool = always(False)
    zone_name: str | None = None


class QueueData(Body, frozen=True, kw_only=True, gc=False):
    """The number of queues of a topic at one broker name, and the permission on them."""

    broker_name: str | None = None
    perm: Int32 = always(0)
    read_queue_nums: Int32 = always(0)
    topic_sys_flag: Int32 = always(0)
    write_queue_nums: Int32 = always(0)


class TopicRouteData(Body, frozen=True, kw_only=True):
    """The route of one topic."""

    broker_datas: list[BrokerData] = empty_list()
    filter_server_table: dict[str, list[str]] = empty_map()
    order_topic_conf: str | None = None
    queue_datas: list[QueueData] = empty_list()
    topic_queue_mapping_by_broker: dict[str, TopicQueueMappingInfo] | None = None


class ClusterInfo(Body, frozen=True, kw_only=True):
    """Every broker of every cluster."""

    broker_addr_table: dict[str, BrokerData] | None = None
    cluster_addr_table: dict[str, list[str]] | None = None


class BrokerMemberGroup(Body, frozen=True, kw_only=True):
    """The live members of one broker name."""

    broker_addrs: dict[Int64, str] = empty_map()
    broker_name: str | None = None
    cluster: str | None = None


class GetBrokerMemberGroupBody(Body, frozen=True, kw_only=True):
    """Answer to GET_BROKER_MEMBER_GROUP."""

    broker_member_group: BrokerMemberGroup | None = None


class TopicList(Body, frozen=True, kw_only=True):
    """Names of topics; GET_SYSTEM_TOPIC_LIST_FROM_NS puts cluster and broker names and one address here."""

    broker_addr: str | None = None
    topic_list: list[str] = empty_list()


class KVTable(Body, frozen=True, kw_only=True):
    """Names and their texts."""

    table: dict[str, str] = empty_map()
