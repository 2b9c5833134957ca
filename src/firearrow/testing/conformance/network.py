"""Checks of the promises of every network without faults.

Each check gets a ``Site``: where to listen, and a door for each side (they may be the same).
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, cast

from firearrow.errors import ConnectionFailed, ListenFailed
from firearrow.runtime.network import Address, Listener, Network

DEADLINE_S: Final = 20.0


class Site(NamedTuple):
    """Two doors and the host on which the first one listens."""

    server: Network
    client: Network
    host: str


NetworkCheck = Callable[[Site], Awaitable[None]]


class RecordingPeer(asyncio.Protocol):
    """A protocol that remembers every call and lets tests wait for it."""

    transport: asyncio.Transport

    def __init__(self, *, half_close: bool = False) -> None:
        self.received = bytearray()
        self.pieces = 0
        self.writing_paused = False
        self.pauses = 0
        self.ended = False
        self.lost = False
        self.lost_with: Exception | None = None
        self._half_close = half_close
        self._news = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the transport."""
        assert not hasattr(self, "transport"), "connection_made came twice"
        self.transport = cast("asyncio.Transport", transport)  # uvloop's do not inherit from it
        self._news.set()

    def data_received(self, data: bytes) -> None:
        """Remember bytes."""
        assert isinstance(data, bytes)
        assert data, "data_received came without data"
        assert not self.lost, "data came after connection_lost"
        self.received += data
        self.pieces += 1
        self._news.set()

    def eof_received(self) -> bool:
        """Remember the end of the other side."""
        self.ended = True
        self._news.set()
        return self._half_close

    def pause_writing(self) -> None:
        """Remember back-pressure."""
        assert not self.writing_paused
        self.writing_paused = True
        self.pauses += 1
        self._news.set()

    def resume_writing(self) -> None:
        """Remember relief."""
        assert self.writing_paused
        self.writing_paused = False
        self._news.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remember the end."""
        assert not self.lost, "connection_lost came twice"
        self.lost = True
        self.lost_with = exc
        self._news.set()

    async def until(self, condition: Callable[["RecordingPeer"], bool]) -> None:
        """Wait until the protocol has been called enough."""
        async with asyncio.timeout(DEADLINE_S):
            while not condition(self):
                self._news.clear()
                await self._news.wait()


class Echo(RecordingPeer):
    """Sends back what it gets."""

    def data_received(self, data: bytes) -> None:
        """Echo."""
        super().data_received(data)
        self.transport.write(data)


class PeerListener:
    """A listener and the peers it accepted."""

    def __init__(self, build: Callable[[], RecordingPeer]) -> None:
        self._build = build
        self._arrived = asyncio.Event()
        self.accepted: list[RecordingPeer] = []
        self.listener: Listener

    def accept(self) -> RecordingPeer:
        """Build the protocol of a new connection."""
        peer = self._build()
        self.accepted.append(peer)
        self._arrived.set()
        return peer

    async def first(self) -> RecordingPeer:
        """Wait for the first connection."""
        async with asyncio.timeout(DEADLINE_S):
            await self._arrived.wait()
        await self.accepted[0].until(lambda peer: hasattr(peer, "transport"))
        return self.accepted[0]


async def serve(site: Site, build: Callable[[], RecordingPeer] = RecordingPeer) -> PeerListener:
    """Listen on a free port."""
    server = PeerListener(build)
    server.listener = await site.server.listen(server.accept, Address(site.host, 0))
    assert server.listener.address.port > 0
    return server


async def pair(
    site: Site, build: Callable[[], RecordingPeer] = RecordingPeer, ours: Callable[[], RecordingPeer] = RecordingPeer
) -> tuple[PeerListener, RecordingPeer, RecordingPeer]:
    """Return a server and the two ends of one connection: ours and theirs."""
    server = await serve(site, build)
    client = ours()
    transport = await site.client.connect(lambda: client, server.listener.address)
    assert client.transport is transport, "connect must return after connection_made"
    return server, client, await server.first()


async def bytes_arrive_whole_and_in_order(site: Site) -> None:
    """Whatever the sizes of the writes, the stream is the same at the other end, both ways at once."""
    rng = random.Random(7)
    server, client, _ = await pair(site, Echo)
    sent = bytearray()
    for _ in range(300):
        piece = rng.randbytes(rng.choice((1, 2, 3, 10, 100, 1000, 5000)))
        sent += piece
        if rng.random() < 0.3:
            client.transport.writelines([piece[:1], memoryview(piece)[1:]])
        else:
            client.transport.write(piece)
        if rng.random() < 0.1:
            await asyncio.sleep(0)
    await client.until(lambda peer: len(peer.received) >= len(sent))
    assert client.received == sent
    await _end(server, client)


async def both_ends_know_their_addresses(site: Site) -> None:
    """``peername`` of one end is ``sockname`` of the other."""
    server, client, theirs = await pair(site)
    for here, there in ((client, theirs), (theirs, client)):
        assert here.transport.get_extra_info("peername")[:2] == there.transport.get_extra_info("sockname")[:2]
    assert client.transport.get_extra_info("peername")[1] == server.listener.address.port
    await _end(server, client)


async def close_flushes_first(site: Site) -> None:
    """Bytes written before ``close`` arrive; both ends end without an error, and once."""
    server, client, theirs = await pair(site)
    data = bytes(range(256)) * 8192
    client.transport.write(data)
    client.transport.close()
    client.transport.close()
    assert client.transport.is_closing()
    await theirs.until(lambda peer: peer.lost)
    await client.until(lambda peer: peer.lost)
    assert theirs.received == data
    assert theirs.ended
    assert (client.lost_with, theirs.lost_with) == (None, None)
    await _end(server, client)


async def half_close_leaves_the_other_direction(site: Site) -> None:
    """After ``write_eof`` the other side reads the end and may still answer."""
    server, client, theirs = await pair(site, lambda: RecordingPeer(half_close=True))
    client.transport.write(b"question")
    client.transport.write_eof()
    await theirs.until(lambda peer: peer.ended)
    assert theirs.received == b"question"
    theirs.transport.write(b"answer")
    theirs.transport.close()
    await client.until(lambda peer: peer.lost)
    assert client.received == b"answer"
    await _end(server, client)


async def abort_ends_at_once(site: Site) -> None:
    """``abort`` does not wait; the other end notices."""
    server, client, theirs = await pair(site)
    theirs.transport.pause_reading()
    client.transport.write(bytes(8 << 20))
    client.transport.abort()
    await client.until(lambda peer: peer.lost)
    theirs.transport.resume_reading()
    await theirs.until(lambda peer: peer.lost)
    await _end(server, client)


async def a_reader_who_stops_stops_the_writer(site: Site) -> None:
    """Buffers are finite: the writer is paused, and resumed when the reader goes on; nothing is lost."""
    server, client, theirs = await pair(site)
    theirs.transport.pause_reading()
    assert not theirs.transport.is_reading()
    sent = 0
    chunk = bytes(range(256)) * 256
    while not client.writing_paused:
        client.transport.write(chunk)
        sent += len(chunk)
        assert sent < 256 << 20, "the writer was never paused"
        await asyncio.sleep(0)
    assert client.transport.get_write_buffer_size() > 0
    theirs.transport.resume_reading()
    await client.until(lambda peer: not peer.writing_paused)
    await theirs.until(lambda peer: len(peer.received) == sent)
    assert bytes(theirs.received[:65536]) == chunk
    await _end(server, client)


async def write_limits_are_kept(site: Site) -> None:
    """With a high mark of zero every unsent byte pauses the writer."""
    server, client, theirs = await pair(site)
    client.transport.set_write_buffer_limits(high=0)
    theirs.transport.pause_reading()
    while not client.writing_paused:
        client.transport.write(bytes(1 << 16))
        await asyncio.sleep(0)
    theirs.transport.resume_reading()
    await client.until(lambda peer: not peer.writing_paused)
    await _end(server, client)


async def paused_readers_get_nothing(site: Site) -> None:
    """Between ``pause_reading`` and ``resume_reading`` no data is handed over."""
    server, client, theirs = await pair(site, Echo)
    client.transport.pause_reading()
    client.transport.write(b"x" * 1000)
    await theirs.until(lambda peer: len(peer.received) == 1000)
    await asyncio.sleep(0.01)
    assert client.received == b""
    client.transport.resume_reading()
    await client.until(lambda peer: len(peer.received) == 1000)
    await _end(server, client)


async def nobody_there_is_refused(site: Site) -> None:
    """A port without a listener raises ``ConnectionFailed``, with the address in its text."""
    listener = await site.server.listen(RecordingPeer, Address(site.host, 0))
    address = listener.address
    listener.close()
    await listener.wait_closed()
    await _fails_naming(address, site.client.connect(RecordingPeer, address), ConnectionFailed)


async def a_port_is_taken_once(site: Site) -> None:
    """A second listener on the same port is refused; a closed listener frees it."""
    first = await site.server.listen(RecordingPeer, Address(site.host, 0))
    await _fails_naming(first.address, site.server.listen(RecordingPeer, first.address), ListenFailed)
    first.close()
    await first.wait_closed()
    again = await site.server.listen(RecordingPeer, first.address)
    assert again.address == first.address
    again.close()


async def closing_the_listener_keeps_connections(site: Site) -> None:
    """Accepted connections outlive their listener."""
    server, client, _ = await pair(site, Echo)
    server.listener.close()
    await server.listener.wait_closed()
    client.transport.write(b"still here")
    await client.until(lambda peer: peer.received == b"still here")
    await _end(server, client)


async def many_connections_at_once(site: Site) -> None:
    """A hundred clients are served side by side."""
    server = await serve(site, Echo)
    clients = [RecordingPeer() for _ in range(100)]
    await asyncio.gather(*(site.client.connect(lambda c=c: c, server.listener.address) for c in clients))  # type: ignore[misc]
    for number, client in enumerate(clients):
        client.transport.write(b"%d" % number)
    for number, client in enumerate(clients):
        await client.until(lambda peer, want=b"%d" % number: peer.received == want)  # type: ignore[misc]
    await _end(server, *clients)


async def _fails_naming(address: Address, attempt: Awaitable[object], expected: type[Exception]) -> None:
    try:
        await attempt
    except expected as error:
        words = str(error)
    else:
        raise AssertionError(f"it should have failed with {expected.__name__}")
    assert str(address) in words, f"the error does not name {address}: {words}"


async def _end(server: PeerListener, *clients: RecordingPeer) -> None:
    server.listener.close()
    await server.listener.wait_closed()
    for peer in (*clients, *server.accepted):
        peer.transport.abort()
        await peer.until(lambda peer: peer.lost)


NETWORK_CHECKS: Final[tuple[NetworkCheck, ...]] = (
    bytes_arrive_whole_and_in_order,
    both_ends_know_their_addresses,
    close_flushes_first,
    half_close_leaves_the_other_direction,
    abort_ends_at_once,
    a_reader_who_stops_stops_the_writer,
    write_limits_are_kept,
    paused_readers_get_nothing,
    nobody_there_is_refused,
    a_port_is_taken_once,
    closing_the_listener_keeps_connections,
    many_connections_at_once,
)
