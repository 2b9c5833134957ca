"""The brokers of a cluster, and requests to them.

Reads go to one member of each broker name, the master if it is registered. Changes go to masters only, of one cluster
or one broker; with several clusters the caller must name one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from msgspec import Struct

from firearrow import fastjson
from firearrow.client.name_servers import UNANSWERED, NameServers
from firearrow.errors import FireArrowError, NoRoute, NoSuchName, PartlyDone, SettingsError
from firearrow.protocol.bodies.naming.route import ClusterInfo, TopicRouteData
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.conversation import A, Request
from firearrow.protocol.requests.naming.route import GetBrokerClusterInfo, GetRouteInfoByTopic
from firearrow.remoting.caller import Caller
from firearrow.remoting.reply import SUCCESS_ONLY, Reply
from firearrow.runtime.network import Address

T = TypeVar("T")

MASTER_ID: Final = 0
AT_ONCE: Final = 16
"""Most requests in flight at once."""

_READS: Final = ("Get", "Query", "View", "Search", "AuthGet", "AuthList")
"""First words of the names of requests that only read."""
_KNOWN_OR_NOT: Final = frozenset({int(ResponseCode.SUCCESS), int(ResponseCode.TOPIC_NOT_EXIST)})


class BrokerMember(Struct, frozen=True, order=True):
    """One broker process."""

    cluster: str
    name: str
    broker_id: int
    address: str

    @property
    def is_master(self) -> bool:
        """Whether the broker is a master."""
        return self.broker_id == MASTER_ID

    @property
    def at(self) -> Address:
        """The address of the broker."""
        return Address.parse(self.address)


Server = BrokerMember | Address | str
"""One server: a registered broker, or an address, also as text ``host:port``."""


class Brokers:
    """The registered brokers, and requests to them."""

    def __init__(self, caller: Caller, names: NameServers, timeout_ms: float) -> None:
        self._caller = caller
        self._names = names
        self._timeout_ms = timeout_ms

    @property
    def name_servers(self) -> Sequence[Address]:
        """The addresses of the name servers."""
        return self._names.addresses

    async def list(self, cluster: str = "") -> Sequence[BrokerMember]:
        """Return every broker that the name server knows, or those of one cluster."""
        members = sorted(
            BrokerMember(data.cluster or "", name, number, address)
            for name, data in ((await self.registered()).broker_addr_table or {}).items()
            for number, address in data.broker_addrs.items()
        )
        return _chosen(members, cluster, "")

    async def registered(self) -> ClusterInfo:
        """Return clusters and brokers as the name server has them."""
        return fastjson.decode((await self.ask_name_server(GetBrokerClusterInfo())).body, ClusterInfo)

    async def registered_at(self, server: Server) -> ClusterInfo:
        """Return clusters and brokers as one name server has them."""
        return await self.read(server, GetBrokerClusterInfo(), ClusterInfo)

    async def readable(self, cluster: str = "", broker: str = "") -> Sequence[BrokerMember]:
        """Return one member of every broker name: the master, or else a slave."""
        chosen: dict[str, BrokerMember] = {}
        for member in _chosen(await self.list(), cluster, broker):
            chosen.setdefault(member.name, member)
        return list(chosen.values())

    async def masters(self, cluster: str = "", broker: str = "") -> Sequence[BrokerMember]:
        """Return the masters of one cluster, or of one broker given by name or address."""
        known = await self.list()
        found = [member for member in _chosen(known, cluster, broker) if member.is_master]
        if not found:
            raise NoRoute(f"no master of {broker or cluster or 'any cluster'} is registered; start it, then try again")
        clusters = sorted({member.cluster for member in found})
        if len(clusters) > 1:
            raise SettingsError(f"there are several clusters, {', '.join(clusters)}; name one of them")
        return found

    async def route(self, topic: str) -> TopicRouteData | None:
        """Return the route of a topic; None if the name server does not know it."""
        return self._read_route(await self._names.ask(_route_of(topic), accept=_KNOWN_OR_NOT))

    async def routes(self, topic: str) -> Sequence[TopicRouteData | None]:
        """Return the route of a topic from every name server that answers."""
        found = []
        for address in self._names.addresses:
            try:
                found.append(self._read_route(await self.ask(address, _route_of(topic), accept=_KNOWN_OR_NOT)))
            except UNANSWERED:
                continue
        return found

    @staticmethod
    def _read_route(reply: Reply[A]) -> TopicRouteData | None:
        if reply.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        return fastjson.decode(reply.body, TopicRouteData)

    # -- asking

    async def ask(
        self,
        to: Server,
        request: Request[A],
        body: bytes = b"",
        *,
        accept: frozenset[int] = SUCCESS_ONLY,
        timeout_ms: float | None = None,
    ) -> Reply[A]:
        """Send a request to one server."""
        limit_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        try:
            return await self._caller.call(_address(to), request, body, timeout_ms=limit_ms, accept=accept)
        except FireArrowError as failure:
            if type(request).__name__.startswith(_READS):
                failure.may_have_happened = False
            raise

    async def read(self, to: Server, request: Request[A], kind: type[T], *, timeout_ms: float | None = None) -> T:
        """Send a request to one server and return its body."""
        return fastjson.decode((await self.ask(to, request, timeout_ms=timeout_ms)).body, kind)

    async def ask_name_server(self, request: Request[A], *, accept: frozenset[int] = SUCCESS_ONLY) -> Reply[A]:
        """Send a request to a name server that answers."""
        return await self._names.ask(request, timeout_ms=self._timeout_ms, accept=accept)

    async def tell_name_servers(self, request: Request[A]) -> None:
        """Send a request to every name server; when all have been asked, raise if one has not done it."""
        await self.at_name_servers(lambda address: self.ask(address, request))

    async def at_name_servers(self, act: Callable[[Address], Awaitable[T]]) -> dict[str, T]:
        """Do something at every name server; return the results by address."""
        found = await at_each({f"name server {each}": partial(act, each) for each in self._names.addresses})
        return dict(zip(map(str, self._names.addresses), found, strict=True))


def _address(server: Server) -> Address:
    if isinstance(server, BrokerMember):
        return server.at
    return Address.parse(server) if isinstance(server, str) else server


def _route_of(topic: str) -> GetRouteInfoByTopic:
    return GetRouteInfoByTopic(topic=topic, accept_standard_json_only=True)


def _chosen(members: Sequence[BrokerMember], cluster: str, broker: str) -> Sequence[BrokerMember]:
    found = [member for member in members if member.cluster == cluster] if cluster else members
    if cluster and not found:
        there = ", ".join(sorted({member.cluster for member in members})) or "none"
        raise NoSuchName(f"no cluster {cluster!r} is registered; there are: {there}")
    if not broker:
        return found
    named = [member for member in found if broker in (member.name, member.address)]
    if not named:
        there = ", ".join(sorted({f"{member.name} ({member.address})" for member in found})) or "none"
        raise NoSuchName(f"no broker {broker!r} is registered; there are: {there}")
    return named


async def at_each(work: Mapping[str, Callable[[], Awaitable[T]]]) -> list[T]:
    """Change servers one after the other, the others also when one fails; return the results in order.

    The keys name the servers. Raise ``PartlyDone`` if it was done at a few of them, and the failure if at none.
    """
    done: dict[str, T] = {}
    failures: dict[str, FireArrowError] = {}
    for place, act in work.items():
        try:
            done[place] = await act()
        except FireArrowError as failure:
            failures[place] = failure
    if not failures:
        return list(done.values())
    first = next((each for each in failures.values() if each.may_have_happened), next(iter(failures.values())))
    if not done and len(failures) == 1:
        raise first
    if not done:
        first.add_note(f"It was done neither at {' nor at '.join(failures)}.")
        raise first
    reasons = "; ".join(f"{place}: {failure}" for place, failure in failures.items())
    raise PartlyDone(
        f"done at {', '.join(done)}, but not at {reasons}. Mend that and do the same again: a repeat does no harm"
    ) from first


async def together(work: Iterable[Awaitable[T]]) -> list[T]:
    """Run coroutines, a few at a time; return their results in order."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(each: Awaitable[T]) -> T:
        async with turns:
            return await each

    return list(await asyncio.gather(*(one(each) for each in work)))
