"""A real cluster in this process: name servers and brokers on free ports, in a temporary directory.

    async with Cluster(brokers=2) as cluster:
        await cluster.create_topic("orders", queues=4)
        async with Producer(cluster.address) as producer:
            ...
        await cluster.restart_broker("broker-a")
        assert [message.body for message in await cluster.messages("orders")] == [b"one espresso"]

These are the servers that ``firearrow broker`` runs, with loopback sockets and real files. They share the loop of the
test, so a test that blocks its loop blocks them too; the cluster of ``firearrow.testing.blocking`` has a thread of its
own.

A broker keeps its port and its files over restarts. ``stop_broker`` shuts it down in order. ``kill_broker`` ends it as
a killed process would end: connections break without notice, and stored messages are there after the next start.
"""

import asyncio
import random
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from msgspec.structs import replace

from firearrow.admin import Admin
from firearrow.broker.broker import Broker
from firearrow.broker.identity import Identity
from firearrow.broker.settings.config import BrokerSettings, load_settings
from firearrow.client import PullConsumer
from firearrow.embedded.cluster import small
from firearrow.errors import ClientClosed, NoRoute, NoSuchName, SettingsError
from firearrow.model import StoredMessage
from firearrow.model.names import TOOLS_CONSUMER_GROUP
from firearrow.nameserver.config import NameServerConfig
from firearrow.nameserver.server import NameServer
from firearrow.protocol.requests.admin.config import UpdateBrokerConfig
from firearrow.runtime.clock import SystemClock
from firearrow.runtime.disk.real_disk import RealDisk
from firearrow.runtime.machine import this_machine
from firearrow.runtime.network import Address
from firearrow.settings import Source
from firearrow.testing.ports import free_broker_port, free_port
from firearrow.testing.running_server import Cable, ServerTask

LOOPBACK: Final = "127.0.0.1"
WAIT_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 0.02
QUEUES: Final = 4


class _Member:
    """A server of the cluster: its cable, new at every start, and its block."""

    def __init__(self, name: str, port: int) -> None:
        self.name = name
        self.address = f"{LOOPBACK}:{port}"
        self.port = port
        self.cable = Cable()
        self.serving: ServerTask[object] | None = None

    @property
    def is_running(self) -> bool:
        return self.serving is not None and self.serving.is_running


class Cluster:
    """Name servers and brokers. Use it in an ``async with`` block.

    ``brokers`` is how many, or their names. ``settings`` are those of ``broker.conf``, under Apache's names. With a
    ``directory`` the data stays there; without one it is deleted at the end.
    """

    def __init__(
        self,
        *,
        brokers: int | Sequence[str] = 1,
        name_servers: int = 1,
        settings: Mapping[str, str] | None = None,
        directory: str | Path | None = None,
    ) -> None:
        if name_servers < 1:
            raise SettingsError("a cluster needs at least one name server")
        self._names = [_Member(f"names-{number}", free_port()) for number in range(name_servers)]
        self._brokers = {name: _Member(name, free_broker_port()) for name in names_of(brokers)}
        self._settings = broker_settings(settings or {})
        self._given_directory = directory
        self._directory: Path | None = None
        self._admin: Admin | None = None

    async def __aenter__(self) -> Self:
        """Start everything."""
        try:
            await self.open()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End everything."""
        await self.close()

    async def open(self) -> None:
        """Start everything; every broker is registered when this returns."""
        given = self._given_directory
        self._directory = Path(given) if given is not None else Path(tempfile.mkdtemp(prefix="firearrow-cluster-"))
        self._admin = Admin(self.address)
        for number in range(len(self._names)):
            await self.start_name_server(number)
        for name in self._brokers:
            await self.start_broker(name)

    async def close(self) -> None:
        """Stop everything, and delete the data unless a directory was given."""
        if self._admin is not None:
            await self._admin.close()
            self._admin = None
        for member in (*self._brokers.values(), *self._names):
            await _stop(member)
        if self._directory is not None and self._given_directory is None:
            shutil.rmtree(self._directory, ignore_errors=True)

    # -- where things are

    @property
    def address(self) -> str:
        """The name servers: the first argument of every producer and consumer."""
        return ";".join(member.address for member in self._names)

    @property
    def broker_names(self) -> list[str]:
        """The brokers, running or not."""
        return list(self._brokers)

    @property
    def directory(self) -> Path:
        """The directory of the data, with a directory for each server."""
        if self._directory is None:
            raise ClientClosed("the cluster is not open; use it inside an async with block")
        return self._directory

    @property
    def admin(self) -> Admin:
        """An ``Admin`` of this cluster."""
        if self._admin is None:
            raise ClientClosed("the cluster is not open; use it inside an async with block")
        return self._admin

    def broker_address(self, name: str | None = None) -> str:
        """Return the address of a broker."""
        return self._broker(name).address

    def _broker(self, name: str | None) -> _Member:
        if name is None:
            name = next(iter(self._brokers))
        if name not in self._brokers:
            raise NoSuchName(f"there is no broker {name!r} in this cluster; there are {', '.join(self._brokers)}")
        return self._brokers[name]

    # -- topics and messages

    async def create_topic(self, topic: str, *, queues: int = QUEUES, order: bool = False) -> str:
        """Create a topic on every running broker, with ``queues`` queues each; return its name."""
        await self.admin.topics.create(topic, queues=queues, order=order)
        return topic

    async def messages(self, topic: str) -> list[StoredMessage]:
        """Return all messages of a topic, in the order in which they were stored, without consuming them."""
        async with PullConsumer(self.address, group=TOOLS_CONSUMER_GROUP) as reader:
            found = []
            for queue, bounds in (await reader.bounds(topic)).items():
                offset = bounds.first
                while offset < bounds.end:
                    pulled = await reader.pull_bytes(queue, offset)
                    found += pulled.messages()
                    offset = pulled.next_offset
        return sorted(found, key=lambda message: (message.store_timestamp, message.queue_id, message.queue_offset))

    async def consumed(self, group: str, topic: str, *, timeout_s: float = WAIT_SECONDS) -> None:
        """Wait until a group has committed all messages of a topic; ``TimeoutError`` says how far it is.

        Consumers commit every ``persist_ms``, by default 5 seconds: set a shorter time in tests.
        """
        lag: int | None = None
        try:
            async with asyncio.timeout(timeout_s):
                while lag != 0:
                    await asyncio.sleep(LOOK_SECONDS)
                    lag = await self._lag(group, topic)
        except TimeoutError:
            behind = "has committed nothing" if lag is None else f"is {lag} messages behind"
            raise TimeoutError(f"group {group!r} {behind} in topic {topic!r} after {timeout_s:g} s") from None

    async def _lag(self, group: str, topic: str) -> int | None:
        held = {state.queue: state.end for state in (await self.admin.topics.describe(topic)).queues if state.end}
        if not held:
            return 0
        try:
            found = await self.admin.groups.describe(group)
        except NoSuchName:
            return None
        committed = {each.queue: max(0, each.committed) for each in found.queues if each.queue.topic == topic}
        if not committed:
            return None
        return sum(max(0, end - committed.get(queue, 0)) for queue, end in held.items())

    # -- failures

    async def start_broker(self, name: str | None = None) -> None:
        """Start a broker with its existing files."""
        member = self._broker(name)
        await self._start(member, lambda: self._serve_broker(member))

    async def stop_broker(self, name: str | None = None) -> None:
        """Shut a broker down in order: its messages are durable, name servers and clients are notified."""
        await _stop(self._running(self._broker(name)))

    async def restart_broker(self, name: str | None = None) -> None:
        """Shut a broker down in order, and start it again."""
        await self.stop_broker(name)
        await self.start_broker(name)

    async def kill_broker(self, name: str | None = None) -> None:
        """End a broker as a killed process would end: without notifying name servers or clients."""
        member = self._running(self._broker(name))
        member.cable.pull()
        await _stop(member)

    async def start_name_server(self, number: int = 0) -> None:
        """Start a name server; all running brokers are registered there when this returns."""
        member = self._names[number]
        await self._start(member, lambda: self._serve_names(member))
        running = [broker for broker in self._brokers.values() if broker.is_running]
        for broker in running:
            # A change of a setting makes a broker register at once; this change sets the present value.
            permission = f"brokerPermission={self._settings.broker.broker_permission}".encode()
            await self.admin.brokers.ask(Address.parse(broker.address), UpdateBrokerConfig(), permission)
        async with asyncio.timeout(WAIT_SECONDS):
            await self._listed(member, {broker.address for broker in running})

    @staticmethod
    async def _listed(name_server: _Member, brokers: set[str]) -> None:
        async with Admin(name_server.address) as admin:
            while not brokers <= {member.address for member in await admin.brokers.list()}:  # noqa: ASYNC110
                await asyncio.sleep(LOOK_SECONDS)

    async def stop_name_server(self, number: int = 0) -> None:
        """Stop a name server; brokers register again when it is back."""
        await _stop(self._running(self._names[number]))

    @staticmethod
    def _running(member: _Member) -> _Member:
        if not member.is_running:
            raise NoRoute(f"{member.name} is not running; start it first")
        return member

    @staticmethod
    async def _start(member: _Member, block: Callable[[], AbstractAsyncContextManager[object]]) -> None:
        if member.is_running:
            raise SettingsError(f"{member.name} is running already")
        member.cable = Cable()
        member.serving = ServerTask(block, member.name)
        await member.serving.start()

    @asynccontextmanager
    async def _serve_names(self, member: _Member) -> AsyncIterator[Address]:
        disk = RealDisk(str(self.directory / member.name))
        config = NameServerConfig(listen_port=member.port, bind_address=LOOPBACK)
        try:
            async with NameServer(config, network=member.cable, disk=disk).serving() as address:
                yield address
        finally:
            await disk.close()

    @asynccontextmanager
    async def _serve_broker(self, member: _Member) -> AsyncIterator[Identity]:
        disk = RealDisk(str(self.directory / member.name))
        who = replace(
            self._settings.broker,
            broker_name=member.name,
            broker_ip1=LOOPBACK,
            bind_address=LOOPBACK,
            listen_port=member.port,
            namesrv_addr=self.address,
        )
        broker = Broker(
            replace(self._settings, broker=who),
            this_machine(),
            network=member.cable,
            disk=disk,
            clock=SystemClock(),
            chance=random.Random(),
        )
        try:
            async with broker.serving() as identity:
                yield identity
        finally:
            await disk.close()


async def _stop(member: _Member) -> None:
    serving, member.serving = member.serving, None
    if serving is not None:
        await serving.stop()


def names_of(brokers: int | Sequence[str]) -> list[str]:
    """Return broker names; a number gives broker-a, broker-b, ..."""
    names = [f"broker-{_letter(number)}" for number in range(brokers)] if isinstance(brokers, int) else list(brokers)
    if not names:
        raise SettingsError("a cluster needs at least one broker")
    return names


def _letter(number: int) -> str:
    return chr(ord("a") + number) if number < ord("z") - ord("a") + 1 else str(number)


def broker_settings(given: Mapping[str, str]) -> BrokerSettings:
    """Return settings of a small broker, from Apache's names; raise ``SettingsError`` for a setting without effect."""
    loaded = load_settings([Source("the settings of the cluster", dict(given))])
    if loaded.warnings:
        raise SettingsError("; ".join(loaded.warnings))
    return small(loaded.value)
