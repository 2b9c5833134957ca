"""Hostile peers where the log is copied: slaves that lie, read nothing or say nothing, and masters that lie."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from firearrow.broker.replication.feed import BUFFERED_BYTES, SPAN_BYTES, Feed
from firearrow.broker.replication.master import Master
from firearrow.broker.settings.config import BrokerConfig, BrokerSettings
from firearrow.broker.settings.replication_settings import ReplicationConfig
from firearrow.errors import RequestRefused, RequestTimedOut
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.ha_handshake import HELLO, MAGIC
from firearrow.protocol.ha_stream import FROM_FIRST_BYTE, HEADER, report
from firearrow.record.layout import BLANK_MAGIC, MAGIC_V1
from firearrow.runtime.network import Address
from firearrow.runtime.tls_network import FIRST_BYTE_S, MOST_SILENT
from firearrow.store.log_copy import LARGEST_REST, OTHERS_LARGEST
from firearrow.testing.sim.world import World
from tests.unit.broker.sim import until
from tests.unit.broker.whole import PORT, Client, Simulated, settings_of

HA_PORT = PORT + 1
LIE = 1 << 40


def a_master(**replication: Any) -> BrokerSettings:
    return replace(settings_of(), replication=ReplicationConfig(**replication))


class Slave(asyncio.Protocol):
    """Says what it is told to, and counts what comes."""

    def __init__(self, *words: bytes, reads: bool = True) -> None:
        self._words = words
        self._reads = reads
        self.got = 0
        self.ended = asyncio.Event()
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        if not self._reads:
            transport.pause_reading()
        for word in self._words:
            transport.write(word)

    def data_received(self, data: bytes) -> None:
        self.got += len(data)

    def connection_lost(self, _error: Exception | None) -> None:
        self.ended.set()


class Stage:
    """A master and whoever connects to its log port."""

    def __init__(self, world: World, broker: Simulated, masters: list[Master]) -> None:
        self._masters = masters
        self.world = world
        self.broker = broker
        self.client = Client(world.node("client"), broker.address)
        self._strangers = 0

    async def slave(self, *words: bytes, reads: bool = True) -> Slave:
        self._strangers += 1
        slave = Slave(*words, reads=reads)
        node = self.world.node(f"stranger{self._strangers}")
        await node.network.connect(lambda: slave, Address(self.broker.node.host, HA_PORT))
        return slave

    @property
    def feeds(self) -> list[Feed]:
        return self._masters[0].feeds if self._masters else []


def at_a_master(scenario: Callable[[Stage], Awaitable[None]], **replication: Any) -> None:
    masters: list[Master] = []
    run = Master.run

    async def noted(self: Master) -> None:
        masters.append(self)
        await run(self)

    async def main(world: World) -> None:
        broker = Simulated(world.node("broker"), a_master(**replication))
        await broker.start()
        await scenario(Stage(world, broker, masters))
        await broker.node.stop()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Master, "run", noted)
        World(1).run(main)


# ---- towards a master


@pytest.mark.parametrize("words", [(report(LIE),), (report(FROM_FIRST_BYTE), report(LIE))], ids=["first", "later"])
def test_a_slave_that_lies_about_its_log_confirms_nothing(words: tuple[bytes, ...]) -> None:
    async def scenario(stage: Stage) -> None:
        liar = await stage.slave(*words)
        await asyncio.wait_for(liar.ended.wait(), 5)
        assert stage.feeds == []
        with pytest.raises(RequestRefused) as caught:
            await stage.client.send()
        assert caught.value.code in (ResponseCode.SLAVE_NOT_AVAILABLE, ResponseCode.FLUSH_SLAVE_TIMEOUT)

    at_a_master(scenario, broker_role="SYNC_MASTER")


def test_a_lie_beside_a_send_that_waits_confirms_it_not() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.slave(report(0))
        await until(lambda: [feed.acked for feed in stage.feeds] == [0])
        sending = asyncio.ensure_future(stage.client.send())
        await asyncio.sleep(0.5)
        await stage.slave(report(LIE))
        await asyncio.sleep(0.5)
        assert not sending.done()
        with pytest.raises(RequestTimedOut):
            await sending

    at_a_master(scenario, broker_role="SYNC_MASTER", ha_max_gap_not_in_sync=1 << 28)


def test_connections_without_a_report_give_way_and_are_cut() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.client.send(body=b"x" * 1000)
        silent = [await stage.slave(b"\0") for _ in range(3)]
        await until(lambda: len(stage.feeds) == 3)
        slave = await stage.slave(report(0))
        await asyncio.wait_for(silent[0].ended.wait(), 5)
        await until(lambda: slave.got > 1000)
        assert len(stage.feeds) == 3
        for second in range(30):
            if second % 5 == 0 and not silent[1].ended.is_set():
                silent[1].transport.write(b"\0")  # a byte now and then is no report
            await asyncio.sleep(1)
        assert silent[1].ended.is_set()
        assert silent[2].ended.is_set()

    at_a_master(scenario, ha_max_connections=3)


def test_connections_that_say_nothing_leave_room_for_others() -> None:
    async def scenario(stage: Stage) -> None:
        silent = [await stage.slave() for _ in range(MOST_SILENT + 10)]
        await until(lambda: all(one.ended.is_set() for one in silent[:10]), FIRST_BYTE_S / 2)
        assert not any(one.ended.is_set() for one in silent[10:])
        await stage.client.send(body=b"x" * 1000)
        slave = await stage.slave(report(0))
        await until(lambda: slave.got > 1000)
        await asyncio.sleep(FIRST_BYTE_S + 1)
        assert all(one.ended.is_set() for one in silent)

    at_a_master(scenario)


def test_no_more_slaves_are_served_than_allowed() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.client.send(body=b"x" * 1000)
        slaves = [await stage.slave(report(0)) for _ in range(3)]
        await until(lambda: all(slave.got > 1000 for slave in slaves))
        more = await stage.slave(report(0))
        await asyncio.wait_for(more.ended.wait(), 5)
        assert len(stage.feeds) == 3
        assert not any(slave.ended.is_set() for slave in slaves)

    at_a_master(scenario, ha_max_connections=3)


def test_a_slave_that_reads_nothing_costs_a_bounded_buffer() -> None:
    async def scenario(stage: Stage) -> None:
        for _ in range(12):
            await stage.client.send(body=b"x" * (1 << 20))
        await stage.slave(report(0), reads=False)
        await until(lambda: bool(stage.feeds) and stage.feeds[0].next > 0)
        await asyncio.sleep(5)
        (feed,) = stage.feeds
        assert feed._transport is not None
        assert 0 < feed._transport.get_write_buffer_size() <= BUFFERED_BYTES + 2 * SPAN_BYTES

    at_a_master(scenario)


def test_slaves_that_are_far_behind_share_a_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    send_span = Feed._send_span
    at_once, most, sent = 0, 0, 0

    async def counting(self: Feed) -> bool:
        nonlocal at_once, most, sent
        is_behind = self._sent.bounds.end - self.next > SPAN_BYTES
        at_once += is_behind
        most, sent = max(most, at_once), sent + is_behind
        try:
            await asyncio.sleep(0.001)  # as if it had to be read from the device
            return await send_span(self)
        finally:
            at_once -= is_behind

    monkeypatch.setattr(Feed, "_send_span", counting)

    async def scenario(stage: Stage) -> None:
        for _ in range(8):
            await stage.client.send(body=b"x" * (1 << 20))
        slaves = await asyncio.gather(*(stage.slave(report(0)) for _ in range(5)))
        await until(lambda: all(slave.got > 8 << 20 for slave in slaves))
        assert sent > 50
        assert most == 1

    at_a_master(scenario)


def test_garbage_is_no_report() -> None:
    async def scenario(stage: Stage) -> None:
        for words in (
            b"GET / HTTP/1.1\r\n\r\n",
            HELLO.pack(MAGIC, 1, 1, 1),
            b"\xff" * 7 + b"\xfe",
            b"\x16\x03\x01" * 9,
        ):
            stranger = await stage.slave(words)
            await asyncio.wait_for(stranger.ended.wait(), 60)
        await stage.client.send()

    at_a_master(scenario)


# ---- towards a slave


class LyingMaster:
    """Accepts a slave and sends it what it is told to, then goes on with the last of it while it is read."""

    def __init__(self, words: list[bytes], endless: bytes = b"") -> None:
        self._words = words
        self._endless = endless
        self.connections = 0
        self.sent = 0

    def made(self) -> asyncio.Protocol:
        master = self

        class Connection(asyncio.Protocol):
            def connection_made(self, transport: Any) -> None:
                master.connections += 1
                for word in master._words:
                    transport.write(word)
                    master.sent += len(word)
                self.transport = transport
                if master._endless:
                    asyncio.get_running_loop().call_later(0.01, self.more)

            def more(self) -> None:
                if not self.transport.is_closing() and master.sent < 64 << 20:
                    self.transport.write(master._endless)
                    master.sent += len(master._endless)
                    asyncio.get_running_loop().call_later(0.01, self.more)

        return Connection()


def record_head(size: int, place: int, magic: int = MAGIC_V1) -> bytes:
    return size.to_bytes(4, "big") + magic.to_bytes(4, "big") + bytes(20) + place.to_bytes(8, "big") + bytes(80)


def span(data: bytes, offset: int = 0, size: int | None = None) -> bytes:
    return HEADER.pack(offset, len(data) if size is None else size) + data


LIES = {
    "no record": [span(b"\xee" * 4096)],
    "a record that is larger than anything": [span(record_head(1 << 29, 0))],
    "a filler that is larger than anything": [span(record_head(1 << 30, 0, BLANK_MAGIC))],
    "a record elsewhere": [span(record_head(500, 12345))],
    "a negative offset": [HEADER.pack(-5, 100)],
    "a negative size": [HEADER.pack(0, -1)],
    "a span over the limit": [HEADER.pack(0, (1 << 30) + 1)],
    "a gap": [span(record_head(5000, 0)[:100]), span(b"x" * 100, offset=1 << 20)],
    "a log that begins inside a file": [span(record_head(500, 777), offset=777)],
    "an answer of another protocol": [b"HTTP/1.1 400 Bad Request\r\n\r\n"],
}


def at_a_slave(master: LyingMaster, then: Callable[[Simulated], Awaitable[None]]) -> None:
    async def main(world: World) -> None:
        liar = world.node("liar")

        async def lie(node: Any) -> None:
            await node.network.listen(master.made, Address(node.host, HA_PORT))
            await asyncio.get_running_loop().create_future()

        liar.start(lie)
        await asyncio.sleep(0.1)
        settings = settings_of(BrokerConfig(broker_name="broker-a", broker_id=1))
        log = replace(settings.log, mapped_file_size_commit_log=1 << 30)
        replication = ReplicationConfig(
            broker_role="SLAVE", ha_master_address=f"{liar.host}:{HA_PORT}", slave_read_enable=True
        )
        slave = Simulated(world.node("slave"), replace(settings, log=log, replication=replication))
        await slave.start()
        await then(slave)
        await slave.node.stop()

    World(1).run(main)


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.complaints("is not copied for now")
def test_a_lying_master_costs_a_slave_its_connection_and_nothing_else(lie: str) -> None:
    master = LyingMaster(LIES[lie], b"\0" * 65536 if "larger" in lie else b"")

    async def then(slave: Simulated) -> None:
        await until(lambda: master.connections >= 2, what="the slave gave the master up and tried again")
        assembly = slave.broker._assembly
        assert assembly is not None
        assert assembly.store.log.tail == 0
        assert len(assembly.store.copy._rest) <= OTHERS_LARGEST + LARGEST_REST

    at_a_slave(master, then)
    assert master.sent < 16 << 20, "it was read on and on"
