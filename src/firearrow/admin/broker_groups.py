"""The groups of one broker: their settings, their members and their progress. Java: ``MQClientAPIImpl``."""

from collections.abc import Sequence
from typing import Final, TypeVar

from firearrow.admin.brokers import Brokers, Server
from firearrow.errors import RequestRefused
from firearrow.protocol.bodies.admin.stats import ConsumeStats, ConsumeStatsList
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.group import (
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupTable,
)
from firearrow.protocol.bodies.group.heartbeat import ConsumerConnection, ProducerConnection, ProducerTable
from firearrow.protocol.bodies.group.running_info import ConsumerRunningInfo
from firearrow.protocol.bodies.pop.pop import SetMessageRequestModeBody
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.admin.stats import GetBrokerConsumeStats, GetConsumeStats
from firearrow.protocol.requests.group.group import (
    DeleteSubscriptionGroup,
    GetAllProducerInfo,
    GetAllSubscriptionGroupConfig,
    GetConsumerConnectionList,
    GetProducerConnectionList,
    GetSubscriptionGroupConfig,
    UpdateAndCreateSubscriptionGroup,
    UpdateAndCreateSubscriptionGroupList,
)
from firearrow.protocol.requests.group.push import GetConsumerRunningInfo
from firearrow.protocol.requests.pop.pop import SetMessageRequestMode

T = TypeVar("T")

_ABSENT: Final = frozenset(
    {
        int(ResponseCode.CONSUMER_NOT_ONLINE),
        int(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        int(ResponseCode.TOPIC_NOT_EXIST),
        int(ResponseCode.QUERY_NOT_FOUND),
    }
)


class BrokerGroups:
    """The groups of brokers, one broker at a time."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    # -- settings

    async def table(self, at: Server) -> SubscriptionGroupTable:
        """Return the settings of all groups of a broker."""
        return await self._brokers.read(at, GetAllSubscriptionGroupConfig(), SubscriptionGroupTable)

    async def configs(self, at: Server) -> dict[str, SubscriptionGroupConfig]:
        """Return the settings of all groups of a broker, by name."""
        return (await self.table(at)).subscription_group_table

    async def config(self, at: Server, group: str) -> SubscriptionGroupConfig:
        """Return the settings of one group (5.x)."""
        return await self._brokers.read(at, GetSubscriptionGroupConfig(group=group), SubscriptionGroupConfig)

    async def put(self, at: Server, group: SubscriptionGroupConfig) -> None:
        """Make or change a group."""
        await self._brokers.ask(at, UpdateAndCreateSubscriptionGroup(), encode_body(group))

    async def put_all(self, at: Server, groups: Sequence[SubscriptionGroupConfig]) -> None:
        """Make or change several groups (5.x)."""
        body = encode_body(SubscriptionGroupList(group_config_list=list(groups)))
        await self._brokers.ask(at, UpdateAndCreateSubscriptionGroupList(), body)

    async def delete(self, at: Server, group: str, *, with_offsets: bool) -> None:
        """Delete a group."""
        request = DeleteSubscriptionGroup(group_name=group, clean_offset=with_offsets, remove_offset=with_offsets)
        await self._brokers.ask(at, request)

    async def put_mode(self, at: Server, group: str, topic: str, mode: str, queues: int) -> None:
        """Choose whether members of a group pull or pop a topic: ``PULL`` or ``POP``."""
        body = SetMessageRequestModeBody(topic=topic, consumer_group=group, mode=mode, pop_share_queue_num=queues)
        await self._brokers.ask(at, SetMessageRequestMode(), encode_body(body))

    # -- members

    async def connections(self, at: Server, group: str) -> ConsumerConnection:
        """Return the connections of a group; a broker refuses if it has none."""
        return await self._brokers.read(at, GetConsumerConnectionList(consumer_group=group), ConsumerConnection)

    async def connections_if_any(self, at: Server, group: str) -> ConsumerConnection:
        """Return the connections of a group, none if the broker knows none."""
        try:
            return await self.connections(at, group)
        except RequestRefused as refusal:
            return _or_nothing(refusal, ConsumerConnection())

    async def running_info(self, at: Server, group: str, client: str, *, stacks: bool = False) -> ConsumerRunningInfo:
        """Return what one member says of itself, by way of a broker that it is connected to."""
        request = GetConsumerRunningInfo(consumer_group=group, client_id=client, jstack_enable=stacks)
        return await self._brokers.read(at, request, ConsumerRunningInfo)

    async def producers(self, at: Server) -> ProducerTable:
        """Return all producers that are connected to a broker."""
        return await self._brokers.read(at, GetAllProducerInfo(), ProducerTable)

    async def producer_connections(self, at: Server, group: str) -> ProducerConnection:
        """Return the connections of a producer group."""
        return await self._brokers.read(at, GetProducerConnectionList(producer_group=group), ProducerConnection)

    # -- progress

    async def progress(self, at: Server, group: str, topic: str = "") -> ConsumeStats:
        """Return the progress of a group in one topic or all; a broker refuses if it has none."""
        request = GetConsumeStats(consumer_group=group, topic=topic or None)
        return await self._brokers.read(at, request, ConsumeStats)

    async def progress_if_any(self, at: Server, group: str, topic: str = "") -> ConsumeStats:
        """Return the progress of a group, none if the broker knows none."""
        try:
            return await self.progress(at, group, topic)
        except RequestRefused as refusal:
            return _or_nothing(refusal, ConsumeStats())

    async def progress_of_all(self, at: Server, *, in_order: bool, timeout_ms: float) -> ConsumeStatsList:
        """Return the progress of every group of a broker; ``in_order`` chooses topics of strict order alone."""
        request = GetBrokerConsumeStats(is_order=in_order)
        return await self._brokers.read(at, request, ConsumeStatsList, timeout_ms=timeout_ms)


def _or_nothing(refusal: RequestRefused, nothing: T) -> T:
    """Return nothing if a broker refused because it knows nothing, else raise the refusal."""
    if refusal.code in _ABSENT:
        return nothing
    raise refusal
