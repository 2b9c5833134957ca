"""Groups of real brokers that elect their master, with three machines of etcd, and producers that must not fail."""

import asyncio
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

from typer.testing import CliRunner, Result

from campaigns.failover.etcd_cluster import etcd_command
from campaigns.failover.group import NAME
from firearrow.broker.failover.group_values import GroupView, decode
from firearrow.cli.failover.commands import failover
from firearrow.client import Message, Producer, PullConsumer
from firearrow.errors import FireArrowError
from firearrow.model.group_state import GroupState
from firearrow.runtime.coordinator.etcd import Etcd
from firearrow.runtime.tls_settings import ClientTls
from firearrow.testing.ports import free_port
from judges import FireArrowBroker, FireArrowNameServer
from judges.process import Child
from judges.server_process import Server, wait_for
from judges.servers import CLUSTER

LEASE_S = 10
"""Longer than the default: on a busy machine a broker may stand still for seconds, which is no fault here."""
SEND_TIMEOUT_MS = 20_000
"""Longer than the default, for the same reason."""
TOPIC = "orders"
RUNS = count()


class EtcdMachine(Server):
    """One of three machines of etcd. ``tls`` has its certificate, its key, and the authority of its clients'."""

    def __init__(self, number: int, tls: tuple[Path, Path, Path] | None = None) -> None:
        super().__init__("etcd", free_port())
        self.number = number
        self.tls = tls
        self.peer = f"http://127.0.0.1:{free_port()}"
        self.url = f"http{'s' if tls else ''}://{self.address}"
        self.members: list[EtcdMachine] = []

    def _launch(self) -> Child:
        command = etcd_command(self.number, self.home / "data", self.url, [member.peer for member in self.members])
        if self.tls is not None:
            flags = zip(("cert-file", "key-file", "trusted-ca-file"), self.tls, strict=True)
            command += ["--client-cert-auth", *(f"--{name}={file}" for name, file in flags)]
        return Child(command, self.log)

    def _ready(self) -> bool:
        return True


class EtcdMachines:
    """Three machines of etcd."""

    def __init__(self, tls: tuple[Path, Path, Path] | None = None) -> None:
        self.machines = [EtcdMachine(number, tls) for number in range(3)]
        self.client_tls: ClientTls | None = None
        if tls is not None:
            certificate, key, authority = map(str, tls)
            self.client_tls = ClientTls(
                enabled=True,
                verify_server=True,
                trust_path=authority,
                certificate_path=certificate,
                key_path=key,
            )

    @property
    def address(self) -> str:
        """The value of ``coordinatorAddress``."""
        return ";".join(machine.url for machine in self.machines)

    def __enter__(self) -> Self:
        """Start all three, and wait until they answer."""
        for machine in self.machines:
            machine.members = self.machines
            machine.start()
        wait_for(lambda: self.seen(NAME) is not None, "etcd; is etcd-server installed?", 180)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Kill what runs, and delete its files."""
        for machine in self.machines:
            machine.close()

    def door(self, name: str) -> Etcd:
        """The door to a group."""
        return Etcd(self.address.split(";"), CLUSTER, name, lease_s=2, tls=self.client_tls)

    def seen(self, name: str) -> GroupView | None:
        """The stored state of a group; None when no machine answers."""

        async def read() -> GroupView:
            door = self.door(name)
            try:
                return decode(await door.read())
            finally:
                await door.close()

        try:
            return asyncio.run(read())
        except FireArrowError:
            return None


class Group:
    """Brokers of one name, a name server, and etcd."""

    def __init__(self, etcd: EtcdMachines | None = None, settings: Mapping[str, str] | None = None) -> None:
        self.etcd = etcd or EtcdMachines()
        self._is_own = etcd is None
        self._settings = {
            "flushDiskType": "SYNC_FLUSH",
            "coordinatorLeaseSeconds": str(LEASE_S),
            **(settings or {}),
        }
        self.names = FireArrowNameServer()
        self.brokers: dict[int, FireArrowBroker] = {}

    def __enter__(self) -> Self:
        """Start everything, and wait until all three brokers are in sync."""
        try:
            if self._is_own:
                self.etcd.__enter__()
            self.names.start()
            for number in (1, 2, 3):
                self.add(number)
            self.until(lambda state: state.iss == (1, 2, 3), "three in sync")
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Kill what runs, and delete its files."""
        for server in (*self.brokers.values(), self.names):
            if error is not None and server.log.exists():
                error.add_note(f"{server.role} {server.address}\n{server.log.read_text()[-2000:]}")
            server._close_after(error)
        if self._is_own:
            self.etcd.__exit__(kind, error, at)

    def add(self, number: int) -> FireArrowBroker:
        """Start a broker of another id with an empty directory."""
        return self.made(number).start(wait=False)

    def made(self, number: int) -> FireArrowBroker:
        """Return a broker of another id, which does not run yet."""
        settings = {"coordinatorAddress": self.etcd.address, **self._settings}
        broker = FireArrowBroker(name_servers=[self.names.address], name=NAME, broker_id=number, settings=settings)
        self.brokers[number] = broker
        return broker

    def replace(self, number: int) -> None:
        """Start a dead broker with an empty directory."""
        broker = self.brokers[number]
        shutil.rmtree(broker.store)
        broker.start(wait=False)

    @property
    def state(self) -> GroupState | None:
        """The state at the coordinator; None when there is none or nobody answers."""
        seen = self.etcd.seen(NAME)
        return None if seen is None else seen.group

    def until(self, condition: Callable[[GroupState], bool], what: str, seconds: float = 240.0) -> GroupState:
        """Wait for a state of the group, and return it."""
        found: list[GroupState] = []

        def is_there() -> bool:
            state = self.state
            if state is not None and condition(state):
                found.append(state)
            return bool(found)

        try:
            wait_for(is_there, what, seconds)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; the group is {self.state}") from None
        return found[0]

    async def now(self) -> GroupState:
        """Return the state of the group, inside a coroutine."""
        return await asyncio.to_thread(self.until, lambda _: True, "a state of the group")

    async def etcd_is_silent(self) -> bool:
        """Whether no state can be read."""
        return await asyncio.to_thread(lambda: self.state) is None

    def command(self, name: str, *words: str, answer: str = "") -> Result:
        """Run ``firearrow failover NAME`` with the settings file of a broker, or with options before one has run."""
        config = next(iter(self.brokers.values())).home / "broker.conf"
        given = ["-c", str(config)] if config.exists() else ["--coordinator", self.etcd.address, "--broker-name", NAME]
        return CliRunner().invoke(failover, [name, *given, *words], input=answer)

    def done(self, name: str, *words: str, answer: str = "") -> str:
        """Run a command that must succeed; return what it printed."""
        result = self.command(name, *words, answer=answer)
        assert result.exit_code == 0, result.output
        return result.output


class Senders:
    """Producers of ours beside each other, with default settings; they remember what was acknowledged and what not."""

    def __init__(self, name_servers: str, producers: int = 4, timeout_ms: int = SEND_TIMEOUT_MS) -> None:
        self._name_servers = name_servers
        self._timeout_ms = timeout_ms
        self._producers = producers
        self._run = next(RUNS)
        self._tasks: list[asyncio.Task[None]] = []
        self._last = time.monotonic()
        self.acked: list[str] = []
        self.failed: list[str] = []
        self.gap_s = 0.0
        """The longest time without an acknowledgement."""

    async def __aenter__(self) -> Self:
        """Begin to send."""
        self._tasks = [asyncio.create_task(self._send(number)) for number in range(self._producers)]
        await self.more(50)
        self.gap_s = 0.0
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """End."""
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    async def _send(self, producer: int) -> None:
        async with Producer(self._name_servers, group=f"P{producer}", send_timeout_ms=self._timeout_ms) as sender:
            number = 0
            while True:
                body = f"{self._run}-{producer}-{number}"
                number += 1
                try:
                    result = await sender.send(Message(TOPIC, body.encode()))
                except FireArrowError as error:
                    self.failed.append(f"{body}: {error}")
                    await asyncio.sleep(0.05)
                    continue
                if not result.is_ok:
                    self.failed.append(f"{body}: {result.status}")
                    continue
                now = time.monotonic()
                self.gap_s, self._last = max(self.gap_s, now - self._last), now
                self.acked.append(body)
                await asyncio.sleep(0.02)

    async def more(self, count: int, seconds: float = 180.0) -> None:
        """Wait until so many more messages were acknowledged."""
        wanted = len(self.acked) + count
        try:
            async with asyncio.timeout(seconds):
                while len(self.acked) < wanted:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise TimeoutError(f"{len(self.acked)} of {wanted} messages; failed: {self.failed[-3:]}") from None


async def stored(name_servers: str) -> Counter[str]:
    """Every message of the topic, with its number of copies."""
    found: Counter[str] = Counter()
    async with PullConsumer(name_servers, group="readers") as consumer:
        queues = await consumer.queues(TOPIC)
        await consumer.assign(queues)
        await consumer.seek_to_begin(*queues)
        left = sum(bounds.end - bounds.first for bounds in (await consumer.bounds(TOPIC)).values())
        async with asyncio.timeout(60):
            while left > 0:
                for message in await consumer.poll(1024):
                    found[message.body.decode()] += 1
                    left -= 1
    return found
