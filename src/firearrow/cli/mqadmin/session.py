"""The session of a command: the cluster behind ``-n``, and standard output."""

import asyncio
import random
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from firearrow.admin import Admin
from firearrow.cli.environment import LOCAL_NAME_SERVER, AccessOptions
from firearrow.cli.mqadmin.java_text import formed
from firearrow.cli.output import standard_output
from firearrow.errors import FireArrowError, NoSuchName, SettingsError

if TYPE_CHECKING:
    from firearrow.protocol.bodies.naming.route import BrokerData, ClusterInfo, TopicRouteData

NO_MASTER = "NO_MASTER"


class Session:
    """One run of one command."""

    def __init__(self, name_servers: str, reach: AccessOptions, chance: random.Random) -> None:
        self._given = name_servers
        self.reach = reach
        self._chance = chance
        self._admin: Admin | None = None
        self.failures = 0
        """The number of parts of the work that failed while the rest went on."""

    # -- printing

    def line(self, form: str, *values: object) -> None:
        """Print a line of Java's format, in which ``%s`` and ``%d`` mean the same as here."""
        self.write(form + "\n", *values)

    def write(self, form: str, *values: object) -> None:
        """Print a text of Java's format without ending the line."""
        standard_output().write(formed(form, *values))

    def failed(self, error: FireArrowError) -> None:
        """Report that a part of the work failed, on the other stream; the rest goes on."""
        self.failures += 1
        print(f"mqadmin: {error}", file=sys.stderr)

    # -- asking

    @property
    def name_servers(self) -> str:
        """The name servers as given; raise if there are none."""
        if not self._given.strip():
            raise SettingsError("no name server is given; write -n HOST:PORT, or set NAMESRV_ADDR")
        return self._given

    @property
    def name_server_list(self) -> list[str]:
        """The addresses of the name servers."""
        return [part.strip() for part in self.name_servers.replace(",", ";").split(";") if part.strip()]

    @property
    def has_name_servers(self) -> bool:
        """Whether name servers are given."""
        return bool(self._given.strip())

    @property
    def admin(self) -> Admin:
        """The administration of the cluster. Commands that ask one broker by its address need no name server."""
        if self._admin is None:
            self._admin = Admin(self._given if self.has_name_servers else LOCAL_NAME_SERVER, **self.reach)
        return self._admin

    @property
    def cluster_admin(self) -> Admin:
        """The administration of the cluster, for requests that name servers answer; raise if none are given."""
        assert self.name_servers
        return self.admin

    async def close(self) -> None:
        """Close connections."""
        if self._admin is not None:
            await self._admin.close()

    # -- the cluster

    async def cluster(self) -> "ClusterView":
        """Return the registered brokers."""
        return ClusterView(await self.cluster_admin.brokers.registered())

    async def route(self, topic: str) -> "TopicRouteData":
        """Return the route of a topic; raise if there is none."""
        found = await self.cluster_admin.brokers.route(topic)
        if found is None:
            raise NoSuchName(
                f"no name server has a route of topic {topic!r} (code 17); mqadmin topicList shows those that are there"
            )
        return found

    async def holders(self, topic: str) -> Sequence[tuple[str, str]]:
        """Return (name, address) of every broker of a topic, the master's address if it is there."""
        route = await self.route(topic)
        found = [(data.broker_name or "", self.address_of(data)) for data in sorted_brokers(route)]
        return [(name, address) for name, address in found if address]

    def address_of(self, data: "BrokerData") -> str:
        """Return the address of the master, else of a slave chosen by chance."""
        addresses = data.broker_addrs
        return addresses.get(0) or (self._chance.choice(sorted(addresses.values())) if addresses else "")

    async def holder_by_chance(self, topic: str) -> str:
        """Return the address of a broker of a topic, as Apache's tool chooses it."""
        return self._chance.choice([address for _, address in await self.holders(topic)])

    async def pause(self, seconds: float) -> None:
        """Wait between two rounds of a command that goes on until it is stopped."""
        standard_output().flush()
        await asyncio.sleep(seconds)


def sorted_brokers(route: "TopicRouteData") -> list["BrokerData"]:
    """Return the brokers of a route by name."""
    return sorted(route.broker_datas, key=lambda data: data.broker_name or "")


class ClusterView:
    """The registered brokers by cluster."""

    def __init__(self, info: "ClusterInfo") -> None:
        self.brokers: Mapping[str, BrokerData] = info.broker_addr_table or {}
        self.clusters: Mapping[str, list[str]] = {
            name: sorted(members) for name, members in sorted((info.cluster_addr_table or {}).items())
        }

    def names(self, cluster: str) -> list[str]:
        """Return the broker names of a cluster; raise if it is not registered."""
        if cluster not in self.clusters:
            there = ", ".join(self.clusters) or "none"
            raise NoSuchName(
                f"no cluster {cluster!r} is registered; there are: {there}. Check -c, and whether -n is the right one"
            )
        return [name for name in self.clusters[cluster] if name in self.brokers]

    def masters(self, cluster: str) -> list[str]:
        """Return the addresses of the masters of a cluster."""
        found = [self.brokers[name].broker_addrs.get(0) for name in self.names(cluster)]
        return [address for address in found if address]

    def members(self, cluster: str) -> list[str]:
        """Return the addresses of all members of a cluster."""
        return [address for name in self.names(cluster) for _, address in self.numbered(name)]

    def numbered(self, name: str) -> list[tuple[int, str]]:
        """Return (broker id, address) of every member of a broker name."""
        return sorted(self.brokers[name].broker_addrs.items()) if name in self.brokers else []

    def ranks(self, cluster: str) -> dict[str, list[str]]:
        """Return the slaves of every master of a cluster, by its address; ``NO_MASTER`` stands for one that is away."""
        found: dict[str, list[str]] = {}
        for name in self.names(cluster):
            members = dict(self.numbered(name))
            found.setdefault(members.pop(0, NO_MASTER), []).extend(members.values())
        return found

    def name_of(self, address: str) -> str:
        """Return the name of the broker with this address."""
        for name, data in self.brokers.items():
            if address in data.broker_addrs.values():
                return name
        raise NoSuchName(f"no broker with address {address} is registered; check -b, and whether -n is the right one")
