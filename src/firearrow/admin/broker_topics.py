"""The topics of one broker: its settings of them, their offsets and their consumers. Java: ``MQClientAPIImpl``."""

from collections.abc import Sequence
from typing import Final

from firearrow import fastjson
from firearrow.admin.brokers import Brokers, Server
from firearrow.errors import RequestRefused
from firearrow.model.names import AUTO_CREATE_TOPIC
from firearrow.protocol.bodies.admin.topic import (
    SINGLE_TAG,
    CreateTopicListBody,
    GroupList,
    TopicConfig,
    TopicConfigTable,
    TopicStatsTable,
)
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.naming.route import TopicList
from firearrow.protocol.bodies.version import DataVersion
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.admin.topic import (
    DeleteTopicInBroker,
    GetAllTopicConfig,
    GetSystemTopicListFromBroker,
    GetTopicConfig,
    GetTopicStatsInfo,
    QueryTopicConsumeByWho,
    UpdateAndCreateTopic,
    UpdateAndCreateTopicList,
)

PAGE: Final = 2000
"""Topics in one answer, from brokers that support pages."""


class BrokerTopics:
    """The topics of brokers, one broker at a time."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    async def table(self, at: Server) -> TopicConfigTable:
        """Return every topic of a broker, by pages; start again if the table changes meanwhile. 4.9 has one page."""
        found: dict[str, TopicConfig] = {}
        version: DataVersion | None = None
        while True:
            known = None if version is None else encode_body(version).decode()
            page = GetAllTopicConfig(topic_seq=len(found), data_version=known, max_topic_num=PAGE)
            reply = await self._brokers.ask(at, page)
            table = fastjson.decode(reply.body, TopicConfigTable)
            if version is not None and table.data_version != version:
                found = {}
            version = table.data_version
            found |= table.topic_config_table
            total = reply.answer.total_topic_num
            if total is None or len(found) >= total or not table.topic_config_table:
                return TopicConfigTable(data_version=version, topic_config_table=found)

    async def system(self, at: Server) -> Sequence[str]:
        """Return the names of a broker's own topics."""
        return (await self._brokers.read(at, GetSystemTopicListFromBroker(), TopicList)).topic_list

    async def config(self, at: Server, topic: str) -> TopicConfig | None:
        """Return a topic as a broker has it; None if it does not have it."""
        try:
            return await self._brokers.read(at, GetTopicConfig(topic=topic), TopicConfig)
        except RequestRefused as refusal:
            if refusal.code == ResponseCode.TOPIC_NOT_EXIST:
                return None
            if refusal.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                return (await self.table(at)).topic_config_table.get(topic)  # brokers of 4.9 return all topics or none
            raise

    async def stats(self, at: Server, topic: str) -> TopicStatsTable:
        """Return the offsets of a topic's queues at a broker."""
        return await self._brokers.read(at, GetTopicStatsInfo(topic=topic), TopicStatsTable)

    async def consumers(self, at: Server, topic: str) -> Sequence[str]:
        """Return the groups that consume a topic at a broker."""
        return (await self._brokers.read(at, QueryTopicConsumeByWho(topic=topic), GroupList)).group_list

    async def put(self, at: Server, config: TopicConfig) -> None:
        """Make or change a topic. Names of attributes have signs: ``+name`` is set, ``-name`` is removed."""
        request = UpdateAndCreateTopic(
            topic=config.topic_name or "",
            default_topic=AUTO_CREATE_TOPIC,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
            topic_filter_type=config.topic_filter_type or SINGLE_TAG,
            topic_sys_flag=config.topic_sys_flag,
            order=config.order,
            attributes=attribute_text(config.attributes),
        )
        await self._brokers.ask(at, request)

    async def put_all(self, at: Server, configs: Sequence[TopicConfig]) -> None:
        """Make or change several topics (5.x)."""
        body = encode_body(CreateTopicListBody(topic_config_list=list(configs)))
        await self._brokers.ask(at, UpdateAndCreateTopicList(), body)

    async def delete(self, at: Server, topic: str) -> None:
        """Delete a topic and its messages."""
        await self._brokers.ask(at, DeleteTopicInBroker(topic=topic))


def attribute_text(changes: dict[str, str]) -> str:
    """Return changes of attributes, by name with their signs, in the form in which they are sent."""
    return ",".join(f"{name}={value}" if name.startswith("+") else name for name, value in changes.items())
