"""An operator's requests to all name servers: read and change settings and named texts.

Java: ``UpdateNamesrvConfigCommand``, ``UpdateKvConfigCommand``.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from firearrow import fastjson
from firearrow.admin.broker_operations import check_names
from firearrow.admin.brokers import Brokers
from firearrow.protocol.bodies.admin.properties import PropertiesText
from firearrow.protocol.bodies.naming.route import KVTable
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.admin.config import GetNamesrvConfig, UpdateNamesrvConfig
from firearrow.protocol.requests.naming.kv_config import DeleteKvConfig, GetKvListByNamespace, PutKvConfig
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

    async def settings(self, server: Address) -> dict[str, str]:
        """Return all settings of a name server."""
        return PropertiesText.decode((await self._brokers.ask(server, GetNamesrvConfig())).body).values

    async def change_settings(self, wanted: Mapping[str, str]) -> None:
        """Change settings at every name server. A name that one does not have is refused before any is changed."""
        for server in self.addresses:
            check_names(wanted, await self.settings(server), f"name server {server}")
        body = PropertiesText(dict(wanted)).encode()
        await self._brokers.at_name_servers(lambda server: self._brokers.ask(server, UpdateNamesrvConfig(), body))

    async def texts(self, server: Address, namespace: str) -> dict[str, str]:
        """Return the named texts of a namespace; none for a namespace that does not exist."""
        reply = await self._brokers.ask(server, GetKvListByNamespace(namespace=namespace), accept=_FOUND_OR_NOT)
        return fastjson.decode(reply.body, KVTable).table if reply.code == ResponseCode.SUCCESS else {}

    async def put_text(self, namespace: str, key: str, value: str) -> None:
        """Set a text at every name server."""
        await self._brokers.tell_name_servers(PutKvConfig(namespace=namespace, key=key, value=value))

    async def delete_text(self, namespace: str, key: str) -> None:
        """Delete a text at every name server."""
        await self._brokers.tell_name_servers(DeleteKvConfig(namespace=namespace, key=key))
