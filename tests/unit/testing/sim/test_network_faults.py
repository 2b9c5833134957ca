"""Failing cables: a stream is late, ends, or hangs, and never skips a byte."""

import asyncio

import pytest

from firearrow.errors import ConnectionFailed
from firearrow.runtime.network import Address
from firearrow.testing.conformance.network import Echo, PeerListener, RecordingPeer, Site, pair
from firearrow.testing.sim.transport import LinkProfile
from firearrow.testing.sim.world import Node, World

PORT = 9876
SERVER = Address("server", PORT)


class Cluster:
    """A server, a client, and one connection between them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.server, self.client = world.node("server"), world.node("client")

    async def connect(self, build: type[RecordingPeer] = RecordingPeer) -> tuple[RecordingPeer, RecordingPeer]:
        site = Site(self.server.network, self.client.network, self.server.host)
        _, ours, theirs = await pair(site, build)
        return ours, theirs


def play(scenario: object, seed: int = 1, **links: object) -> None:
    async def run(world: World) -> None:
        await scenario(Cluster(world))  # type: ignore[operator]

    World(seed, links=LinkProfile(**links)).run(run)  # type: ignore[arg-type]


def test_a_partition_delays_and_loses_nothing() -> None:
    async def scenario(cluster: Cluster) -> None:
        ours, theirs = await cluster.connect()
        network = cluster.world.network
        sent = b""
        for number in range(50):
            piece = bytes([number]) * 500
            sent += piece
            ours.transport.write(piece)
            if number % 10 == 3:
                network.partition(["client"], ["server"])
            if number % 10 == 8:
                before = len(theirs.received)
                await asyncio.sleep(5)
                assert len(theirs.received) == before
                network.heal()
            await asyncio.sleep(0.0005)
        await theirs.until(lambda peer: len(peer.received) == len(sent))
        assert theirs.received == sent

    for seed in range(20):
        play(scenario, seed)


def test_a_one_way_partition_lets_the_other_way_through() -> None:
    async def scenario(cluster: Cluster) -> None:
        ours, theirs = await cluster.connect()
        cluster.world.network.partition(["client"], ["server"], one_way=True)
        ours.transport.write(b"lost in the cut")
        theirs.transport.write(b"heard")
        await ours.until(lambda peer: peer.received == b"heard")
        await asyncio.sleep(10)
        assert theirs.received == b""
        cluster.world.network.heal(["server"], ["client"])
        await theirs.until(lambda peer: peer.received == b"lost in the cut")

    play(scenario)


def test_without_acknowledgements_the_window_closes() -> None:
    async def scenario(cluster: Cluster) -> None:
        ours, theirs = await cluster.connect()
        cluster.world.network.partition(["client"], ["server"], one_way=True)
        theirs.transport.write(bytes(1 << 20))  # the data gets through, its acknowledgements do not
        await asyncio.sleep(10)
        assert len(ours.received) == 128 * 1024
        assert theirs.writing_paused
        cluster.world.network.heal()
        await ours.until(lambda peer: len(peer.received) == 1 << 20)
        await theirs.until(lambda peer: not peer.writing_paused)

    play(scenario)


def test_the_sender_gives_up_after_the_retransmission_timeout() -> None:
    async def scenario(cluster: Cluster) -> None:
        ours, theirs = await cluster.connect()
        cluster.world.network.isolate("server")
        ours.transport.write(b"anybody there?")
        await ours.until(lambda peer: peer.lost)
        assert isinstance(ours.lost_with, TimeoutError)
        assert 15 <= cluster.world.loop.time() < 16
        assert not theirs.lost  # half-open: nobody told it
        cluster.world.network.heal()
        theirs.transport.write(b"hello?")
        await theirs.until(lambda peer: peer.lost)
        assert isinstance(theirs.lost_with, ConnectionResetError)
        assert cluster.world.network.connection_count == 0

    play(scenario, retransmission_timeout_s=15.0)


def test_resets_break_both_ends() -> None:
    async def scenario(cluster: Cluster) -> None:
        ours, theirs = await cluster.connect()
        assert cluster.world.network.reset("client", "server") == 1
        for end in (ours, theirs):
            await end.until(lambda peer: peer.lost)
            assert isinstance(end.lost_with, ConnectionResetError)

    play(scenario)


def test_a_slow_reader_takes_its_time_and_pushes_back() -> None:
    async def scenario(cluster: Cluster) -> None:
        ours, theirs = await cluster.connect()
        cluster.world.network.throttle("server", 100_000)
        ours.transport.write(bytes(1_000_000))
        assert ours.writing_paused
        await theirs.until(lambda peer: len(peer.received) == 1_000_000)
        assert 9.9 < cluster.world.loop.time() < 11

    play(scenario)


async def echo(node: Node) -> None:
    await node.network.listen(Echo, Address("0.0.0.0", PORT))
    await asyncio.Event().wait()


def test_a_dead_process_refuses_and_a_dead_machine_is_silent() -> None:
    async def scenario(cluster: Cluster) -> None:
        server, client, loop = cluster.server, cluster.client, cluster.world.loop
        server.start(echo)
        await asyncio.sleep(1)
        await server.crash()
        before = loop.time()
        with pytest.raises(ConnectionFailed, match="connection refused"):
            await client.network.connect(RecordingPeer, SERVER)
        assert loop.time() - before < 0.1
        server.start(echo)
        await asyncio.sleep(1)
        await server.power_loss()
        before = loop.time()
        with pytest.raises(ConnectionFailed, match="no answer within 3 s"):
            await client.network.connect(RecordingPeer, SERVER)
        assert 3 <= loop.time() - before < 3.1
        server.start(echo)
        await asyncio.sleep(0.1)
        await client.network.connect(RecordingPeer, SERVER)

    play(scenario)


def test_an_attempt_into_a_partition_waits_for_it_to_heal() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.server.start(echo)
        await asyncio.sleep(0.1)
        network = cluster.world.network
        network.partition(["server"], ["client"], one_way=True)
        with pytest.raises(ConnectionFailed, match="no answer"):
            await cluster.client.network.connect(RecordingPeer, SERVER)
        cluster.world.loop.call_later(0.5, network.heal)
        await cluster.client.network.connect(RecordingPeer, SERVER)

    play(scenario)


def test_a_crash_ends_connections_and_a_power_loss_leaves_them_half_open() -> None:
    async def scenario(cluster: Cluster) -> None:
        ours, _ = await cluster.connect()
        await cluster.server.crash()
        await ours.until(lambda peer: peer.lost)

        ours, _ = await cluster.connect()
        await cluster.server.power_loss()
        await asyncio.sleep(100)
        assert not ours.lost
        ours.transport.write(b"still there?")
        await asyncio.sleep(100)
        assert not ours.lost
        cluster.server.start(echo)  # the rebooted machine knows nothing of the connection
        await ours.until(lambda peer: peer.lost)
        assert isinstance(ours.lost_with, ConnectionResetError)

    for seed in range(5):
        play(scenario, seed)


def test_what_was_sent_before_a_crash_arrives_or_the_connection_breaks() -> None:
    endings: list[bool] = []

    async def scenario(cluster: Cluster) -> None:
        ours, theirs = await cluster.connect()
        theirs.transport.write(b"last words")
        await cluster.server.crash()
        await ours.until(lambda peer: peer.lost)
        endings.append(ours.lost_with is None)
        if ours.lost_with is None:
            assert ours.received == b"last words"

    for seed in range(30):
        play(scenario, seed)
    assert set(endings) == {True, False}


def test_closing_over_unread_bytes_resets() -> None:
    async def scenario(cluster: Cluster) -> None:
        ours, theirs = await cluster.connect()
        theirs.transport.pause_reading()
        ours.transport.write(b"unread")
        await asyncio.sleep(1)
        theirs.transport.close()
        await ours.until(lambda peer: peer.lost)
        assert isinstance(ours.lost_with, ConnectionResetError)

    play(scenario)


def test_a_frozen_process_accepts_and_reads_nothing_until_it_thaws() -> None:
    async def scenario(cluster: Cluster) -> None:
        server = PeerListener(Echo)

        async def program(node: Node) -> None:
            server.listener = await node.network.listen(server.accept, Address("0.0.0.0", PORT))
            await asyncio.Event().wait()

        cluster.server.start(program)
        await asyncio.sleep(0.1)
        cluster.server.freeze()
        ours = RecordingPeer()
        await cluster.client.network.connect(lambda: ours, SERVER)  # its kernel completes the handshake
        ours.transport.write(b"wake up")
        await asyncio.sleep(60)
        assert server.accepted == []
        assert ours.received == b""
        cluster.server.thaw()
        await ours.until(lambda peer: peer.received == b"wake up")

    play(scenario)


def test_streams_are_chopped_in_every_way() -> None:
    sizes: set[int] = set()

    async def scenario(cluster: Cluster) -> None:
        ours, theirs = await cluster.connect()
        for _ in range(20):
            before, pieces = len(theirs.received), theirs.pieces
            ours.transport.write(b"12345678")
            ours.transport.write(b"abcdefgh")
            await theirs.until(lambda peer, want=before + 16: len(peer.received) == want)  # type: ignore[misc]
            sizes.add(theirs.pieces - pieces)

    for seed in range(10):
        play(scenario, seed)
    assert {1, 2, 3} <= sizes
    assert max(sizes) >= 8


def test_unknown_hosts_and_foreign_addresses() -> None:
    async def scenario(cluster: Cluster) -> None:
        with pytest.raises(ConnectionFailed, match="unknown host"):
            await cluster.client.network.connect(RecordingPeer, Address("nowhere", 1))
        with pytest.raises(Exception, match="not an address of client"):
            await cluster.client.network.listen(RecordingPeer, Address("server", 1))

    play(scenario)


def test_writing_after_the_end_is_as_strict_as_uvloop() -> None:
    async def scenario(cluster: Cluster) -> None:
        ours, theirs = await cluster.connect()
        ours.transport.close()
        await ours.until(lambda peer: peer.lost)
        await theirs.until(lambda peer: peer.lost)
        with pytest.raises(RuntimeError, match="after connection_lost"):
            ours.transport.write(b"too late")
        with pytest.raises(TypeError):
            ours.transport.write("text")  # type: ignore[arg-type]

    play(scenario)
