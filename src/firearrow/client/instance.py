"""One client as brokers and name servers know it: an id, its connections, its routes, its heartbeats.

Brokers identify a member of a group by its connection, so an instance does not share its connections. Its id is unique
among instances, except for broadcasting, where it names the local file of offsets and stays the same over restarts.

In the background an instance refreshes every route in use every ``poll_name_server_ms``, and soon after a broker could
not be reached. It sends a heartbeat to every broker in use every ``heartbeat_ms``, and as the first request of every
new connection, so that a restarted broker knows its clients before they ask anything.

Java: ``MQClientInstance``, ``ClientConfig.buildMQClientId``.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from firearrow.client.doors import Doors
from firearrow.client.lookup import Url, fetch
from firearrow.client.name_servers import UNANSWERED, NameServers, NameServerSource, parse_name_servers
from firearrow.client.routes import MASTER_ID, Route, RouteTable, decoded, read_masters, read_route
from firearrow.client.settings import ClientSettings
from firearrow.client.tasks import Tasks
from firearrow.errors import FireArrowError, NoRoute
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.heartbeat import HeartbeatData
from firearrow.protocol.bodies.naming.route import ClusterInfo, TopicRouteData
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.group.heartbeat import HeartBeat, UnregisterClient
from firearrow.protocol.requests.naming.route import GetBrokerClusterInfo, GetRouteInfoByTopic
from firearrow.remoting.caller import Caller
from firearrow.remoting.handlers import Handlers, Peer
from firearrow.runtime import forks
from firearrow.runtime.network import Address
from firearrow.telemetry.damped import Trouble

log: Final = logging.getLogger(__name__)

HEARTBEAT_TIMEOUT_MS: Final = 3000
FAREWELL_TIMEOUT_MS: Final = 1000
SOON_S: Final = 0.1
LATER_S: Final = 5.0
"""Back-off of the lookup of name servers while none is known: first and largest."""
READY_PAUSE_S: Final = 0.1
"""Back-off of a client that waits for the first answer of a name server."""
HURRY_S: Final = 0.5
"""Shortest time between two refreshes of routes, however many brokers cannot be reached."""

_KNOWN_OR_NOT: Final = frozenset({int(ResponseCode.SUCCESS), int(ResponseCode.TOPIC_NOT_EXIST)})


def client_id(doors: Doors, instance_name: str = "", unit_name: str = "", *, is_stable: bool = False) -> str:
    """Return a unique client id, or with ``is_stable`` the id that stays the same on this machine."""
    if not instance_name:
        instance_name = "DEFAULT" if is_stable else f"{doors.pid}#{doors.chance.getrandbits(62)}"
    return f"{doors.ip}@{instance_name}" + (f"@{unit_name}" if unit_name else "")


class Instance:
    """A client id with its connections. Open it before use, close it after."""

    def __init__(
        self,
        name_servers: NameServerSource,
        settings: ClientSettings,
        identity: str,
        doors: Doors,
        heartbeat: Callable[[], HeartbeatData],
        *,
        handlers: Handlers | None = None,
        on_route_change: Callable[[Route], None] | None = None,
    ) -> None:
        self.id: Final = identity
        self.doors: Final = doors
        tls, sign = settings.access.prepared(doors)
        self.caller: Final = Caller(
            doors.network,
            tls=tls,
            sign=sign,
            handlers=handlers,
            on_connect=self._greet,
            on_disconnect=self._gone,
        )
        self.names: Final = NameServers(self.caller, name_servers.addresses, doors.chance)
        self._url = name_servers.url
        self.routes: Final = RouteTable()
        self.tasks: Final = Tasks(identity)
        self.trouble: Final = Trouble(log)
        self._settings = settings
        self.request_timeout_ms: Final = settings.request_timeout_ms
        self._heartbeat = heartbeat
        self._on_route_change = on_route_change
        self._wanted: dict[str, None] = {}
        self._asking: dict[str, asyncio.Task[Route | None]] = {}
        self._met: dict[Address, None] = {}
        self._versions: dict[Address, int] = {}
        self._hurry = asyncio.Event()
        self._generation = forks.generation
        self._counts = settings.metrics.counts if settings.metrics is not None else None
        self._is_closing = False
        self.loop: Final = asyncio.get_running_loop()
        self.refusal = ""
        """The reason why the last heartbeat was refused; empty if it was accepted."""

    @property
    def is_of_another_process(self) -> bool:
        """Whether this is a copy that a fork made."""
        return self._generation != forks.generation

    def open(self) -> None:
        """Start refreshing routes and sending heartbeats."""
        if self._url is not None:
            self.tasks.spawn(self._look_up(self._url), "name servers")
        self.tasks.spawn(self._poll(), "routes")
        self.tasks.spawn(self._beat_on(), "heartbeats")

    async def close(self, *, producer_group: str | None = None, consumer_group: str | None = None) -> None:
        """Unregister a group, and end all tasks and connections."""
        request = UnregisterClient(client_id=self.id, producer_group=producer_group, consumer_group=consumer_group)
        self._is_closing = True
        await self.tasks.close()
        await asyncio.gather(*(self._farewell(address, request) for address in self._addresses()))
        await self.caller.close()

    async def _farewell(self, address: Address, request: UnregisterClient) -> None:
        try:
            await self.caller.call(address, request, timeout_ms=FAREWELL_TIMEOUT_MS)
        except FireArrowError as error:
            extra = {"broker": str(address), "reason": str(error)}
            log.debug("the client could not be unregistered at broker %s: %s", address, error, extra=extra)

    # -- name servers

    async def _look_up(self, url: Url) -> None:
        pause_s = SOON_S
        while True:
            try:
                found = parse_name_servers(await fetch(self.doors.network, url))
            except FireArrowError as error:
                self.names.fault = str(error)
                extra = {"at": str(url.address), "reason": str(error)}
                log.warning(
                    "the list of name servers could not be fetched from %s: %s", url.address, error, extra=extra
                )
            else:
                self.names.fault = ""
                if set(found) != set(self.names.addresses):
                    log.info("name servers were found", extra={"addresses": ";".join(map(str, found))})
                    self.names.replace(found)
                    self.hurry()
            pause_s = min(2 * pause_s, LATER_S)
            await asyncio.sleep(self._settings.fetch_name_server_ms / 1000 if self.names.addresses else pause_s)

    async def wait_answer(self, topic: str, limit_ms: int, who: str) -> None:
        """Wait until a name server has answered; after the limit raise ``NoRoute`` with the reason."""
        reason = "no name server has answered"
        try:
            async with asyncio.timeout(limit_ms / 1000):
                while True:
                    try:
                        await self.refresh(topic)
                    except FireArrowError as error:
                        reason = str(error)
                        await asyncio.sleep(READY_PAUSE_S)
                    else:
                        return
        except TimeoutError:
            raise NoRoute(f"{who} is not ready after {limit_ms} ms: {reason}") from None

    # -- routes

    def want(self, topic: str) -> None:
        """Keep this topic's route up to date from now on."""
        self._wanted[topic] = None

    def hurry(self) -> None:
        """Refresh all routes soon, because a broker could not be reached."""
        self._hurry.set()

    async def route(self, topic: str) -> Route:
        """Return the route of a topic, fetched if it is not known; raise ``NoRoute`` if no name server knows it."""
        self.want(topic)
        route = self.routes.get(topic) or await self.refresh(topic)
        if route is None:
            raise NoRoute(
                f"no name server knows topic {topic!r}; check its name (firearrow topic list shows all), "
                "create it, or let brokers create topics"
            )
        return route

    async def refresh(self, topic: str) -> Route | None:
        """Fetch a route; concurrent callers share one request. None: no such topic."""
        task = self._asking.get(topic)
        if task is None:
            task = self.tasks.spawn(self._ask(topic), f"route of {topic}")
            self._asking[topic] = task
            task.add_done_callback(lambda _: self._asking.pop(topic, None))
        outcome: Route | FireArrowError | None = await asyncio.shield(task)
        if isinstance(outcome, FireArrowError):
            raise outcome
        return outcome

    async def _ask(self, topic: str) -> Route | FireArrowError | None:
        request = GetRouteInfoByTopic(topic=topic, accept_standard_json_only=True)
        try:
            reply = await self.names.ask(request, timeout_ms=self.request_timeout_ms, accept=_KNOWN_OR_NOT)
            if reply.code == ResponseCode.TOPIC_NOT_EXIST:
                return None
            route = read_route(topic, decoded(reply.body, TopicRouteData))
        except FireArrowError as error:
            return error
        is_known = self.routes.get(topic) is not None
        if self.routes.update(route):
            if is_known and self._counts is not None:
                self._counts.route_changes += 1
            if self._on_route_change is not None:
                self._on_route_change(route)
        return route

    async def _poll(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._hurry.clear()
            begun = loop.time()
            await self._wait_for_hurry(self._settings.poll_name_server_ms / 1000)
            await asyncio.sleep(max(0.0, begun + HURRY_S - loop.time()))
            for topic in dict.fromkeys((*self._wanted, *self.routes.topics())):
                try:
                    await self.refresh(topic)
                except FireArrowError as error:
                    what = "the route of topic %s could not be fetched: %s"
                    self.trouble.say(loop.time(), "route", what, topic, error, topic=topic, reason=str(error))
                    if isinstance(error, UNANSWERED):
                        break  # no name server answers: the other routes wait for the next round

    async def _wait_for_hurry(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._hurry.wait()
        except TimeoutError:
            pass

    # -- heartbeats

    def meet_all_brokers(self) -> None:
        """Send heartbeats to the master of every broker, not only of topics in use."""
        self.tasks.spawn(self._meet_on(), "all brokers")

    async def _meet_on(self) -> None:
        loop, pause_s = asyncio.get_running_loop(), SOON_S
        while True:
            try:
                reply = await self.names.ask(GetBrokerClusterInfo(), timeout_ms=self.request_timeout_ms)
                masters = read_masters(decoded(reply.body, ClusterInfo))
            except FireArrowError as error:
                what = "the brokers could not be listed, so that some may not ask about transactions: %s"
                self.trouble.say(loop.time(), "all brokers", what, error, reason=str(error))
                pause_s = min(2 * pause_s, LATER_S)
                await asyncio.sleep(pause_s)
                continue
            new = any(address not in self._met for address in masters)
            self._met = dict.fromkeys(masters)
            if new:
                await self.beat()
            await asyncio.sleep(self._settings.poll_name_server_ms / 1000)

    def _addresses(self) -> list[Address]:
        """Return the brokers that get heartbeats: masters, for a consumer slaves too; none without a group."""
        said = self._heartbeat()
        consumes = bool(said.consumer_data_set)
        if not (consumes or said.producer_data_set):
            return []
        found: dict[Address, None] = dict(self._met)
        for members in self.routes.brokers.values():
            for number, address in members.items():
                if number == MASTER_ID or consumes:
                    found[address] = None
        return list(found)

    async def beat(self) -> None:
        """Send a heartbeat with the groups of this client to every broker in use."""
        body = encode_body(self._heartbeat())
        await asyncio.gather(*(self._beat_at(address, body) for address in self._addresses()))

    async def version_at(self, address: Address, timeout_ms: float) -> int:
        """Return the version of a broker (``model.versions``), which the answer to a heartbeat tells."""
        if address not in self._versions:
            body, limit_ms = encode_body(self._heartbeat()), min(timeout_ms, HEARTBEAT_TIMEOUT_MS)
            try:
                reply = await self.caller.call(address, HeartBeat(), body, timeout_ms=limit_ms)
            except FireArrowError as error:
                error.may_have_happened = False  # a heartbeat more or less changes nothing
                raise
            self._versions[address] = reply.version
        return self._versions[address]

    async def _beat_at(self, address: Address, body: bytes) -> None:
        try:
            reply = await self.caller.call(address, HeartBeat(), body, timeout_ms=HEARTBEAT_TIMEOUT_MS)
            self.refusal, self._versions[address] = "", reply.version
        except FireArrowError as error:
            self.refusal = str(error)
            what, now = "a heartbeat to %s failed: %s", asyncio.get_running_loop().time()
            self.trouble.say(now, f"heartbeat {address}", what, address, error, broker=str(address), reason=str(error))

    async def _beat_on(self) -> None:
        while True:
            await asyncio.sleep(self._settings.heartbeat_ms / 1000)
            await self.beat()

    def _greet(self, peer: Peer) -> None:
        if self._counts is not None:
            self._counts.connections_opened += 1
        if peer.address not in self._addresses():
            return
        try:
            peer.begin(HeartBeat(), encode_body(self._heartbeat()), _ignore, timeout_ms=HEARTBEAT_TIMEOUT_MS)
        except FireArrowError as error:
            extra = {"broker": str(peer.address), "reason": str(error)}
            log.info("a heartbeat to %s failed: %s", peer.address, error, extra=extra)

    def _gone(self, peer: Peer) -> None:
        if self._counts is not None and not self._is_closing:
            self._counts.connections_lost += 1
        self._versions.pop(peer.address, None)  # another version may be started there
        if any(peer.address in members.values() for members in self.routes.brokers.values()):
            self.hurry()


def _ignore(_outcome: Any) -> None:  # noqa: ANN401 - a reply or an error, neither of interest
    return
