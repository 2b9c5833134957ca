"""One administrator: the nouns over one set of connections.

It is no member of any group and sends no heartbeats. Java: ``DefaultMQAdminExt``.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from firearrow.admin.brokers import Brokers
from firearrow.admin.groups import Groups
from firearrow.admin.topics import Topics
from firearrow.client.access import Access
from firearrow.client.doors import Doors, system_doors
from firearrow.client.lookup import Url, fetch
from firearrow.client.nameservers import NameServers, parse_name_servers, whereabouts
from firearrow.remoting.caller import Caller
from firearrow.runtime.tlssettings import ClientTls

TIMEOUT_MS: Final = 5000


class Admin:
    """Sees a cluster and changes it. Use it in an ``async with`` block."""

    def __init__(
        self,
        name_servers: str | Sequence[str],
        *,
        tls: ClientTls | None = None,
        access_key: str = "",
        secret_key: str = "",
        security_token: str = "",
        timeout_ms: float = TIMEOUT_MS,
        doors: Doors | None = None,
    ) -> None:
        doors = doors or system_doors()
        access = Access(tls or ClientTls(), access_key, secret_key, security_token)
        access.check()
        context, sign = access.prepared()
        self._caller = Caller(doors.network, tls=context, sign=sign)
        where = whereabouts(name_servers)
        self._lookup: Url | None = where.url
        self._network = doors.network
        self._names = names = NameServers(self._caller, where.addresses, doors.chance)
        self.brokers: Final = Brokers(self._caller, names, timeout_ms)
        self.topics: Final = Topics(self.brokers)
        self.groups: Final = Groups(self.brokers)

    async def __aenter__(self) -> Self:
        """Begin; servers are connected to when they are asked. Name servers behind a URL are looked up now."""
        if self._lookup is not None:
            self._names.replace(parse_name_servers(await fetch(self._network, self._lookup)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        await self.close()

    async def close(self) -> None:
        """End every connection."""
        await self._caller.close()
