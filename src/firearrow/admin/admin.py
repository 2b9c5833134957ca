"""``Admin``: topics, groups, messages, brokers and name servers over one set of connections.

An ``Admin`` joins no group and sends no heartbeats. Java: ``DefaultMQAdminExt``.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from firearrow.admin.accounts import AccountOperations
from firearrow.admin.broker_operations import BrokerOperations
from firearrow.admin.broker_upkeep import BrokerUpkeep
from firearrow.admin.brokers import Brokers
from firearrow.admin.group_members import GroupMembers
from firearrow.admin.group_offsets import GroupOffsets
from firearrow.admin.groups import Groups
from firearrow.admin.messages import Messages
from firearrow.admin.name_server_operations import NameServerOperations
from firearrow.admin.topic_size import TopicSize
from firearrow.admin.topics import Topics
from firearrow.client.access import Access
from firearrow.client.doors import Doors, system_doors
from firearrow.client.lookup import Url, fetch
from firearrow.client.name_servers import NameServers, name_server_source, parse_name_servers
from firearrow.model.signature import SignatureMethod
from firearrow.remoting.caller import Caller
from firearrow.runtime.tls_settings import ClientTls

TIMEOUT_MS: Final = 5000


class Admin:
    """Reads and changes a cluster. Use it in an ``async with`` block."""

    def __init__(
        self,
        name_servers: str | Sequence[str],
        *,
        tls: ClientTls | None = None,
        access_key: str = "",
        secret_key: str = "",
        security_token: str = "",
        signature_method: SignatureMethod = SignatureMethod.SHA1,
        timeout_ms: float = TIMEOUT_MS,
        doors: Doors | None = None,
    ) -> None:
        doors = doors or system_doors()
        access = Access(tls or ClientTls(), access_key, secret_key, security_token, SignatureMethod(signature_method))
        access.check()
        context, sign = access.prepared(doors)
        self._caller = Caller(doors.network, tls=context, sign=sign)
        where = name_server_source(name_servers)
        self._lookup: Url | None = where.url
        self._network = doors.network
        self._names = names = NameServers(self._caller, where.addresses, doors.chance)
        self.brokers: Final = Brokers(self._caller, names, timeout_ms)
        self.topics: Final = Topics(self.brokers)
        self.groups: Final = Groups(self.brokers)
        self.offsets: Final = GroupOffsets(self.brokers)
        self.members: Final = GroupMembers(self.brokers)
        self.messages: Final = Messages(self.brokers)
        self.operations: Final = BrokerOperations(self.brokers)
        self.upkeep: Final = BrokerUpkeep(self.brokers)
        self.name_servers: Final = NameServerOperations(self.brokers)
        self.accounts: Final = AccountOperations(self.brokers)
        self.sizes: Final = TopicSize(self.brokers, self.topics, self.groups)

    async def __aenter__(self) -> Self:
        """Open it; servers are connected at the first request. A list of name servers at a URL is fetched now."""
        if self._lookup is not None:
            self._names.replace(parse_name_servers(await fetch(self._network, self._lookup)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        await self.close()

    async def close(self) -> None:
        """Close connections."""
        await self._caller.close()
