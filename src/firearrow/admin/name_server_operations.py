"""An operator's requests to all name servers: read and change settings, named texts and routes of topics.

Java: ``UpdateNamesrvConfigCommand``, ``UpdateKvConfigCommand``.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from firearrow import fastjson
from firearrow.admin.broker_operations import check_names
from firearrow.admin.brokers import Brokers, Server
from firearrow.protocol.bodies.admin.properties import PropertiesText
from firearrow.protocol.bodies.naming.route import KVTable, TopicList
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.admin.config import GetNamesrvConfig, UpdateNamesrvConfig
from firearrow.protocol.requests.naming.kv_config import (
    DeleteKvConfig,
    GetKvConfig,
    GetKvListByNamespace,
    PutKvConfig,
)
from firearrow.protocol.requests.naming.route import DeleteTopicInNamesrv, GetAllTopicListFromNameserver
from firearrow.runtime.network import Address

_FOUND_OR_NOT: Final = frozenset({int(ResponseCode.SUCCESS), int(ResponseCode.QUERY_NOT_FOUND)})


class NameServerOperations:
    """Operations on the name servers of a cluster."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    @property
    def addresses(self) -> Sequence[Address]:
        """The name servers."""
        return self._brokers.name_servers

    async def topics(self) -> Sequence[str]:
        """Return the names of all topics that have a route."""
        reply = await self._brokers.ask_name_server(GetAllTopicListFromNameserver())
        return fastjson.decode(reply.body, TopicList).topic_list

    async def forget_topic(self, topic: str, cluster: str = "") -> None:
        """Delete the route of a topic at every name server."""
        await self._brokers.tell_name_servers(DeleteTopicInNamesrv(topic=topic, cluster_name=cluster or None))

    async def settings(self, server: Server) -> dict[str, str]:
        """Return all settings of a name server."""
        return PropertiesText.decode((await self._brokers.ask(server, GetNamesrvConfig())).body).values

    async def change_settings(self, wanted: Mapping[str, str]) -> None:
        """Change settings at every name server. A name that one does not have is refused before any is changed."""
        for server in self.addresses:
            check_names(wanted, await self.settings(server), f"name server {server}")
        await self._brokers.at_name_servers(lambda server: self.put_settings(server, wanted))

    async def put_settings(self, server: Server, wanted: Mapping[str, str]) -> None:
        """Change settings of one name server, which takes names that it does not have without a word."""
        await self._brokers.ask(server, UpdateNamesrvConfig(), PropertiesText(dict(wanted)).encode())

    async def text(self, namespace: str, key: str) -> str | None:
        """Return a text, by a name server that answers; None if there is none."""
        request = GetKvConfig(namespace=namespace, key=key)
        reply = await self._brokers.ask_name_server(request, accept=_FOUND_OR_NOT)
        return reply.answer.value if reply.code == ResponseCode.SUCCESS else None

    async def text_at(self, server: Server, namespace: str, key: str) -> str | None:
        """Return a text of one name server; None if there is none."""
        reply = await self._brokers.ask(server, GetKvConfig(namespace=namespace, key=key), accept=_FOUND_OR_NOT)
        return reply.answer.value if reply.code == ResponseCode.SUCCESS else None

    async def texts(self, server: Server, namespace: str) -> dict[str, str]:
        """Return the named texts of a namespace; none for a namespace that does not exist."""
        reply = await self._brokers.ask(server, GetKvListByNamespace(namespace=namespace), accept=_FOUND_OR_NOT)
        return fastjson.decode(reply.body, KVTable).table if reply.code == ResponseCode.SUCCESS else {}

    async def put_text(self, namespace: str, key: str, value: str) -> None:
        """Set a text at every name server."""
        await self._brokers.tell_name_servers(PutKvConfig(namespace=namespace, key=key, value=value))

    async def delete_text(self, namespace: str, key: str) -> None:
        """Delete a text at every name server."""
        await self._brokers.tell_name_servers(DeleteKvConfig(namespace=namespace, key=key))
