"""All topics and groups of a master, asked for by a slave: whole, or by pages where no answer holds them all.

A master of ours refuses to tell a table above 15 MiB in one answer, and the slave then asks for the pages that clients
of 5.x ask for. A page may have fewer rows than were asked for: the next begins where it ended. Pages belong together
while the version of the table is the same: the slave begins again when it changes. Apache's masters answer with the
whole table, or refuse their pages as they refused the whole.
"""

from typing import Any, Final

from firearrow.errors import RequestRefused
from firearrow.fastjson import decode
from firearrow.protocol.bodies.admin.topic import TopicConfig, TopicConfigAndMappingTable
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig, SubscriptionGroupTable
from firearrow.protocol.bodies.version import DataVersion
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests.admin.topic import GetAllTopicConfig
from firearrow.protocol.requests.group.group import GetAllSubscriptionGroupConfig
from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address

TIMEOUT_MS: Final = 10_000
PAGE: Final = 1000
"""Topics or groups asked for: the most groups that a page of a master of ours has."""


class TablePages:
    """Asks a master for its topics and groups."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._by_pages: Address | None = None
        """The master, if it has refused to tell a whole table."""

    async def topics(self, master: Address) -> TopicConfigAndMappingTable:
        """Return all topics of the master."""
        whole = await self._whole(master, GetAllTopicConfig())
        return await self._pages_of_topics(master) if whole is None else decode(whole, TopicConfigAndMappingTable)

    async def groups(self, master: Address) -> SubscriptionGroupTable:
        """Return all groups of the master."""
        whole = await self._whole(master, GetAllSubscriptionGroupConfig())
        return await self._pages_of_groups(master) if whole is None else decode(whole, SubscriptionGroupTable)

    async def _whole(self, master: Address, asked: Request[Any]) -> bytes | None:
        """Return the body of a whole table; None if this master refuses whole tables."""
        if master != self._by_pages:
            try:
                return (await self._caller.call(master, asked, timeout_ms=TIMEOUT_MS)).body
            except RequestRefused as refused:
                if refused.code != ResponseCode.SYSTEM_ERROR:
                    raise
                self._by_pages = master
        return None

    async def _pages_of_topics(self, master: Address) -> TopicConfigAndMappingTable:
        found: dict[str, TopicConfig] = {}
        version: DataVersion | None = None
        while True:
            asked = GetAllTopicConfig(topic_seq=len(found), data_version=_text(version), max_topic_num=PAGE)
            reply = await self._caller.call(master, asked, timeout_ms=TIMEOUT_MS)
            page = decode(reply.body, TopicConfigAndMappingTable)
            if page.data_version != version:
                found = {}
            version = page.data_version
            found |= page.topic_config_table
            if _is_last(len(page.topic_config_table), len(found), reply.answer.total_topic_num):
                return TopicConfigAndMappingTable(data_version=version, topic_config_table=found)

    async def _pages_of_groups(self, master: Address) -> SubscriptionGroupTable:
        found: dict[str, SubscriptionGroupConfig] = {}
        forbidden: dict[str, dict[str, int]] = {}
        version: DataVersion | None = None
        while True:
            asked = GetAllSubscriptionGroupConfig(group_seq=len(found), data_version=_text(version), max_group_num=PAGE)
            reply = await self._caller.call(master, asked, timeout_ms=TIMEOUT_MS)
            page = decode(reply.body, SubscriptionGroupTable)
            if page.data_version != version:
                found, forbidden = {}, {}
            version = page.data_version
            found |= page.subscription_group_table
            forbidden |= page.forbidden_table
            if _is_last(len(page.subscription_group_table), len(found), reply.answer.total_group_num):
                return SubscriptionGroupTable(
                    data_version=version, forbidden_table=forbidden, subscription_group_table=found
                )


def _text(version: DataVersion | None) -> str | None:
    return None if version is None else encode_body(version).decode()


def _is_last(on_page: int, found: int, total: int | None) -> bool:
    return not on_page or total is None or found >= total
